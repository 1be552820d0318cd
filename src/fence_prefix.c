/*
 * fence_prefix.c
 *		The only file that knows the heap and the index of lockfence.prefix.
 *
 * Rules: a look reads what is committed now, whatever the transaction's
 * snapshot, and waits for nobody: an administrator's open transaction must not
 * hold up the first use of resources. It takes a new MVCC snapshot, which
 * misses no row in motion, and asks it version by version, since a scan with
 * it would draw predicate locks under SERIALIZABLE. Writers hold an object
 * lock until they end, so that they meet no row in motion.
 */
#include "postgres.h"

#include "access/genam.h"
#include "access/heapam.h"
#include "access/htup_details.h"
#include "access/table.h"
#include "access/tableam.h"
#include "access/xact.h"
#include "catalog/indexing.h"
#include "catalog/pg_collation.h"
#include "storage/bufmgr.h"
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
	Anum_prefix_floor,
	Natts_prefix = Anum_prefix_floor
};

/* lockfence.prefix, open for looks. */
typedef struct PrefixTable
{
	Relation	heap;
	Relation	index;
	TupleTableSlot *slot;
	IndexScanDesc scan;
	Snapshot	latest;
} PrefixTable;

static void
open_table(PrefixTable *table, LOCKMODE lockmode)
{
	table->heap = table_open(fence_catalog_oid(FENCE_CATALOG_PREFIX), lockmode);
	table->index = index_open(fence_catalog_oid(FENCE_CATALOG_PREFIX_INDEX),
							  AccessShareLock);
	table->slot = table_slot_create(table->heap, NULL);
	table->scan = index_beginscan_compat(table->heap, table->index,
										 SnapshotAny, 1);
	table->latest = RegisterSnapshot(GetLatestSnapshot());
}

static void
close_table(PrefixTable *table)
{
	UnregisterSnapshot(table->latest);
	index_endscan(table->scan);
	ExecDropSingleTupleTableSlot(table->slot);
	index_close(table->index, NoLock);
	table_close(table->heap, NoLock);
}

/* Is the version in the slot committed, or this transaction's? */
static bool
is_visible(PrefixTable *table)
{
	Buffer		buffer = ((BufferHeapTupleTableSlot *) table->slot)->buffer;
	HeapTuple	tuple = ExecFetchSlotHeapTuple(table->slot, false, NULL);
	bool		visible;

	LockBuffer(buffer, BUFFER_LOCK_SHARE);
	visible = HeapTupleSatisfiesVisibility(tuple, table->latest, buffer);
	LockBuffer(buffer, BUFFER_LOCK_UNLOCK);
	return visible;
}

/*
 * greatest_below
 *
 * Find the greatest stored prefix that is not above the given bytes; with
 * "exact", only that very prefix. True if there is one, then in the slot.
 */
static bool
greatest_below(PrefixTable *table, FenceString bytes, bool exact)
{
	text	   *value = cstring_to_text_with_len(bytes.data, bytes.len);
	ScanKeyData key;
	bool		found = false;

	ScanKeyEntryInitialize(&key, 0, 1,
						   exact ? BTEqualStrategyNumber : BTLessEqualStrategyNumber,
						   InvalidOid, C_COLLATION_OID,
						   exact ? F_TEXTEQ : F_TEXT_LE,
						   PointerGetDatum(value));
	index_rescan(table->scan, &key, 1, NULL, 0);
	while (!found &&
		   index_getnext_slot(table->scan, BackwardScanDirection, table->slot))
		found = is_visible(table);
	if (found)
		slot_getallattrs(table->slot);
	pfree(value);
	return found;
}

/*
 * fence_prefix_lookup
 *
 * Fill in what a resource without a fence may start with: the rule of the
 * longest prefix that has one, and the highest floor of all. Prefixes of the
 * resource are met from the longest to the shortest: from the greatest entry
 * that is not above the resource, every further one lies at or below the bytes
 * that the two have in common, and is shorter.
 */
void
fence_prefix_lookup(FenceString resource, FenceState *state)
{
	PrefixTable table;
	FenceString rest = resource;
	bool		ruled = false;

	memset(state, 0, sizeof(FenceState));
	state->kind = FENCE_ABSENT;
	state->accepts_external = true;

	open_table(&table, AccessShareLock);
	while (rest.len >= 0 && greatest_below(&table, rest, false))
	{
		Datum	   *values = table.slot->tts_values;
		text	   *prefix = DatumGetTextPP(values[Anum_prefix_prefix - 1]);
		const char *data = VARDATA_ANY(prefix);
		int			len = VARSIZE_ANY_EXHDR(prefix);
		int			common = 0;

		while (common < len && common < rest.len &&
			   data[common] == rest.data[common])
			common++;

		if (common == len)
		{
			bool		no_rule = table.slot->tts_isnull[Anum_prefix_accepts_external - 1];

			if (!ruled && !no_rule)
			{
				state->accepts_external =
					DatumGetBool(values[Anum_prefix_accepts_external - 1]);
				ruled = true;
			}
			state->floor = Max(state->floor,
							   DatumGetInt64(values[Anum_prefix_floor - 1]));
			common--;
		}
		rest.len = common;
	}
	close_table(&table);
}

/* fence_prefix_lock: until this transaction ends, nobody else writes here */
void
fence_prefix_lock(void)
{
	LockDatabaseObject(fence_catalog_oid(FENCE_CATALOG_PREFIX), 0, 0, ExclusiveLock);
}

/*
 * Write one prefix: its rule if accept is not NULL, and its floor if it is
 * higher than before. Other writers wait until this transaction ends.
 */
static void
write_prefix(FenceString prefix, const bool *accept, int64 floor)
{
	PrefixTable table;
	HeapTuple	tuple;
	Datum		values[Natts_prefix];
	bool		nulls[Natts_prefix] = {false, true, false};
	bool		exists;

	fence_prefix_lock();
	open_table(&table, RowExclusiveLock);
	exists = greatest_below(&table, prefix, true);

	values[Anum_prefix_prefix - 1] =
		PointerGetDatum(cstring_to_text_with_len(prefix.data, prefix.len));
	if (exists)
	{
		values[Anum_prefix_accepts_external - 1] =
			table.slot->tts_values[Anum_prefix_accepts_external - 1];
		nulls[Anum_prefix_accepts_external - 1] =
			table.slot->tts_isnull[Anum_prefix_accepts_external - 1];
		floor = Max(floor,
					DatumGetInt64(table.slot->tts_values[Anum_prefix_floor - 1]));
	}
	if (accept != NULL)
	{
		values[Anum_prefix_accepts_external - 1] = BoolGetDatum(*accept);
		nulls[Anum_prefix_accepts_external - 1] = false;
	}
	values[Anum_prefix_floor - 1] = Int64GetDatum(floor);

	tuple = heap_form_tuple(RelationGetDescr(table.heap), values, nulls);
	if (exists)
		CatalogTupleUpdate(table.heap, &table.slot->tts_tid, tuple);
	else
		CatalogTupleInsert(table.heap, tuple);
	CommandCounterIncrement();
	close_table(&table);
}

/*
 * fence_prefix_set_rule
 *
 * Store whether resources with this prefix may start with an external token.
 */
void
fence_prefix_set_rule(FenceString prefix, bool accept)
{
	write_prefix(prefix, &accept, 0);
}

/*
 * fence_prefix_raise_floor
 *
 * Store that tokens up to this one are forgotten for resources with this
 * prefix, and never pass again.
 */
void
fence_prefix_raise_floor(FenceString prefix, int64 floor)
{
	write_prefix(prefix, NULL, floor);
}
