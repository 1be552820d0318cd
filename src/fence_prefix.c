/*
 * fence_prefix.c
 *		The only file that knows the heap and the index of lockfence.prefix.
 *
 * Rule: readers hold an object lock in share mode for the time of their look,
 * writers in exclusive mode until they end. So a look meets no row in motion
 * and needs no transaction snapshot, and pg_dump is in nobody's way.
 */
#include "postgres.h"

#include "access/genam.h"
#include "access/htup_details.h"
#include "access/table.h"
#include "access/tableam.h"
#include "access/xact.h"
#include "catalog/indexing.h"
#include "catalog/pg_collation.h"
#include "storage/lmgr.h"
#include "utils/builtins.h"
#include "utils/fmgroids.h"
#include "utils/rel.h"
#include "utils/snapmgr.h"

#include "compat.h"
#include "fence_catalog.h"
#include "fence_prefix.h"

/* Columns of lockfence.prefix, as the install script creates them. */
enum
{
	Anum_prefix_prefix = 1,
	Anum_prefix_accepts_external,
	Natts_prefix = Anum_prefix_accepts_external
};

/*
 * greatest_below
 *
 * Find the greatest stored prefix that is not above the given bytes; with
 * "exact", only that very prefix. True if there is one, then in the slot.
 */
static bool
greatest_below(IndexScanDesc scan, TupleTableSlot *slot, FenceString bytes,
			   bool exact)
{
	text	   *value = cstring_to_text_with_len(bytes.data, bytes.len);
	ScanKeyData key;
	bool		found;

	ScanKeyEntryInitialize(&key, 0, 1,
						   exact ? BTEqualStrategyNumber : BTLessEqualStrategyNumber,
						   InvalidOid, C_COLLATION_OID,
						   exact ? F_TEXTEQ : F_TEXT_LE,
						   PointerGetDatum(value));
	index_rescan(scan, &key, 1, NULL, 0);
	found = index_getnext_slot(scan, BackwardScanDirection, slot);
	if (found)
		slot_getallattrs(slot);
	pfree(value);
	return found;
}

/*
 * fence_prefix_lookup
 *
 * Fill in what a resource without a fence may start with. Prefixes of the
 * resource are met from the longest to the shortest: from the greatest entry
 * that is not above the resource, every further one lies at or below the bytes
 * that the two have in common.
 */
void
fence_prefix_lookup(FenceString resource, FenceState *state)
{
	Oid			relid = fence_catalog_oid(FENCE_CATALOG_PREFIX);
	Relation	heap;
	Relation	index;
	TupleTableSlot *slot;
	IndexScanDesc scan;
	FenceString rest = resource;

	memset(state, 0, sizeof(FenceState));
	state->kind = FENCE_ABSENT;
	state->accepts_external = true;

	LockDatabaseObject(relid, 0, 0, ShareLock);
	heap = table_open(relid, AccessShareLock);
	index = index_open(fence_catalog_oid(FENCE_CATALOG_PREFIX_INDEX),
					   AccessShareLock);
	slot = table_slot_create(heap, NULL);
	scan = index_beginscan_compat(heap, index, SnapshotSelf, 1);

	while (greatest_below(scan, slot, rest, false))
	{
		text	   *prefix = DatumGetTextPP(slot->tts_values[Anum_prefix_prefix - 1]);
		const char *data = VARDATA_ANY(prefix);
		int			len = VARSIZE_ANY_EXHDR(prefix);
		int			common = 0;

		while (common < len && common < rest.len &&
			   data[common] == rest.data[common])
			common++;

		if (common == len)
		{
			state->accepts_external =
				DatumGetBool(slot->tts_values[Anum_prefix_accepts_external - 1]);
			break;
		}
		rest.len = common;
	}

	index_endscan(scan);
	ExecDropSingleTupleTableSlot(slot);
	index_close(index, NoLock);
	table_close(heap, NoLock);
	UnlockDatabaseObject(relid, 0, 0, ShareLock);
}

/*
 * fence_prefix_set
 *
 * Store whether resources with this prefix may start with an external token.
 * Looks for rules wait until this transaction ends.
 */
void
fence_prefix_set(FenceString prefix, bool accept)
{
	Oid			relid = fence_catalog_oid(FENCE_CATALOG_PREFIX);
	Relation	heap;
	Relation	index;
	TupleTableSlot *slot;
	IndexScanDesc scan;
	HeapTuple	tuple;
	Datum		values[Natts_prefix];
	bool		nulls[Natts_prefix] = {false};

	LockDatabaseObject(relid, 0, 0, ExclusiveLock);
	heap = table_open(relid, RowExclusiveLock);
	index = index_open(fence_catalog_oid(FENCE_CATALOG_PREFIX_INDEX),
					   RowExclusiveLock);
	slot = table_slot_create(heap, NULL);
	scan = index_beginscan_compat(heap, index, SnapshotSelf, 1);

	values[Anum_prefix_prefix - 1] =
		PointerGetDatum(cstring_to_text_with_len(prefix.data, prefix.len));
	values[Anum_prefix_accepts_external - 1] = BoolGetDatum(accept);
	tuple = heap_form_tuple(RelationGetDescr(heap), values, nulls);
	if (greatest_below(scan, slot, prefix, true))
		CatalogTupleUpdate(heap, &slot->tts_tid, tuple);
	else
		CatalogTupleInsert(heap, tuple);
	CommandCounterIncrement();

	index_endscan(scan);
	ExecDropSingleTupleTableSlot(slot);
	index_close(index, NoLock);
	table_close(heap, NoLock);
}
