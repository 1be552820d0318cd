/*
 * fence_admission.h
 *		The admissions of the current transaction, as a data structure.
 */
#ifndef FENCE_ADMISSION_H
#define FENCE_ADMISSION_H

#include "access/transam.h"
#include "access/xact.h"
#include "storage/itemptr.h"

#include "lockfence.h"

/* What one resource was admitted with; resource and "observed" are the key. */
typedef struct Admission
{
	int64		token;			/* 0: taken back by a rollback to savepoint */
	FullTransactionId raised_by;	/* of the fence that admitted it */
	Oid			target;			/* table that was written first, if any */
	int			nest;			/* transaction depth that set the token */
	ItemPointerData fence;		/* where the fence's row was; a hint */
	bool		observed;		/* judged for the log only */
	bool		by_right;		/* shown by who may execute fence_check */
	uint16		len;
	uint32		earlier;		/* the entry made before; see entry_at() */
	char		resource[FLEXIBLE_ARRAY_MEMBER];
} Admission;

/* An admission among others in order. */
typedef struct FenceAdmitted
{
	uint64		leading;		/* decides the order, unless it is equal */
	Admission  *admission;
} FenceAdmitted;

static inline FenceString
fence_admission_resource(const Admission *admission)
{
	FenceString resource;

	resource.data = admission->resource;
	resource.len = admission->len;
	return resource;
}

/*
 * Changes whenever an admission known earlier may no longer hold: at the end
 * of a transaction or subtransaction, and when a resource gets another token.
 * A caller that keeps the last (resource, token) it saw admitted may skip
 * fence_admit() and fence_admitted() while the number stays the same.
 */
extern uint64 fence_session_epoch;

extern bool fence_admission_any(void);
extern uint32 fence_admission_count(void);
extern Admission *fence_admission_find(FenceString resource, bool observed);
extern void fence_admission_record(FenceString resource, bool observed,
								   int64 token, Oid target, bool by_right,
								   FullTransactionId raised_by,
								   const ItemPointerData *fence);
extern FenceAdmitted *fence_admission_sorted(uint64 *count);
extern void fence_admission_end_subxact(SubXactEvent event);
extern void fence_admission_forget(void);

#endif							/* FENCE_ADMISSION_H */
