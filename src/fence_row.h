/*
 * fence_row.h
 *		A fence in memory, as read from its row or about to be written.
 */
#ifndef FENCE_ROW_H
#define FENCE_ROW_H

#include "access/htup.h"
#include "access/transam.h"
#include "datatype/timestamp.h"
#include "executor/tuptable.h"
#include "storage/itemptr.h"

#include "fence_rule.h"

/* Columns of lockfence.fence, as the install script creates them. */
enum
{
	Anum_fence_resource = 1,
	Anum_fence_token,
	Anum_fence_raised_at,
	Anum_fence_raised_by,
	Anum_fence_acquired_at,
	Anum_fence_renewed_at,
	Anum_fence_expires_at,
	Anum_fence_issued,
	Anum_fence_released,
	Anum_fence_holder,
	Anum_fence_authority,
	Natts_fence = Anum_fence_authority
};

/*
 * One fence, copied out of its row. Strings point into the struct itself, so
 * it is never copied by assignment.
 */
typedef struct FenceRow
{
	bool		found;

	/* not found */
	TransactionId inserter;		/* transaction that is just inserting it */

	/* found */
	ItemPointerData tid;
	bool		mine;			/* this transaction wrote this version */
	int64		token;
	bool		issued;
	bool		released;
	FenceString holder;
	bool		has_lease;
	FenceString authority;		/* lease only, as the three times */
	TimestampTz acquired_at;
	TimestampTz renewed_at;
	TimestampTz expires_at;
	TimestampTz raised_at;
	FullTransactionId raised_by;

	char		holder_data[FENCE_MAX_HOLDER];
	char		authority_data[NAMEDATALEN];
} FenceRow;

extern void fence_row_decode(FenceRow *row, TupleTableSlot *slot);
extern HeapTuple fence_row_form(const FenceRow *row, FenceString resource,
								TupleDesc desc);

extern void fence_row_set_holder(FenceRow *row, FenceString holder);
extern void fence_row_set_lease(FenceRow *row, const char *authority,
								TimestampTz at, TimestampTz expires_at);
extern void fence_row_raise(FenceRow *row, int64 token, bool issued,
							FenceString holder);
extern void fence_row_state(const FenceRow *row, FenceState *state);
extern bool fence_row_live(const FenceRow *row, TimestampTz now);
extern bool fence_row_leased_by(const FenceRow *row, const char *authority);

#endif							/* FENCE_ROW_H */
