/*
 * fence_spec.h
 *		What a guard demands of the rows of its table, ready for use.
 */
#ifndef FENCE_SPEC_H
#define FENCE_SPEC_H

#include "utils/relcache.h"

#include "fence_fit.h"
#include "fence_memo.h"

typedef struct FenceSpec
{
	Oid			relid;			/* hash key (must be first) */
	bool		valid;			/* false: ask fence_spec_get() again */
	Oid			trigger_oid;
	MemoryContext context;		/* owns "key" and "ancestors" */

	bool		fits;			/* false only if "observe": let rows pass */
	bool		observe;
	bool		by_transaction; /* present = 'transaction' */
	AttrNumber	token_attnum;	/* InvalidAttrNumber: no token column */
	bool		token_domain;	/* the token column's type is a domain */
	FenceKey   *key;
	List	   *ancestors;		/* OIDs of what the table is a partition of */

	/*
	 * The row that "key" remembers is admitted with this token, as long as
	 * fence_session_epoch is "epoch". Only if "known".
	 */
	bool		known;
	uint64		epoch;
	int64		token;

	/*
	 * If "packs", that row is remembered by its number instead. The memo
	 * knows rows before it; it is begun when rows return to earlier
	 * resources.
	 */
	bool		packs;
	uint64		number;			/* see fence_key_pack() */
	int			returns;
	FenceMemo  *memo;
} FenceSpec;

extern FenceSpec *fence_spec_get(Relation rel, Oid trigger_oid);
extern void fence_spec_build(FenceSpec *spec, Relation rel, Oid trigger_oid,
							 MemoryContext context, int elevel);
extern bool fence_spec_row_error(const FenceSpec *spec, Relation rel,
								 FenceKeyFault fault, const FenceKeyText *text,
								 int elevel);

#endif							/* FENCE_SPEC_H */
