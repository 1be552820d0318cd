/*
 * fence_operation.c
 *		The only file that knows the heap and the index of
 *		lockfence.operations.
 *
 * Rules: an operation is looked for among all that are committed or in
 * progress, whatever the snapshot of the transaction, so that isolation levels
 * make no difference and no 40001 arises. Its rows are inserted and deleted,
 * never updated, so SnapshotDirty cannot miss one. First acceptances are put
 * in order by a lock on the table's object and the key's hash, held only from
 * the look to the insertion.
 */
#include "postgres.h"

#include "access/genam.h"
#include "access/htup_details.h"
#include "access/table.h"
#include "access/tableam.h"
#include "access/xact.h"
#include "catalog/indexing.h"
#include "catalog/pg_collation.h"
#include "common/hashfn.h"
#include "miscadmin.h"
#include "storage/lmgr.h"
#include "utils/builtins.h"
#include "utils/fmgroids.h"
#include "utils/rel.h"
#include "utils/snapmgr.h"
#include "utils/timestamp.h"

#include "compat.h"
#include "fence_catalog.h"
#include "fence_operation.h"

/* Columns of lockfence.operations, as the install script creates them. */
enum
{
	Anum_operations_resource = 1,
	Anum_operations_operation,
	Anum_operations_token,
	Anum_operations_holder,
	Anum_operations_accepted_at,
	Natts_operations = Anum_operations_accepted_at
};

static Datum
text_datum(FenceString string)
{
	return PointerGetDatum(cstring_to_text_with_len(string.data, string.len));
}

/*
 * Look for an operation. With one in progress, *inserter is its transaction.
 */
static bool
find_operation(Relation heap, Datum resource, Datum operation,
			   TransactionId *inserter)
{
	Relation	index = index_open(fence_catalog_oid(FENCE_CATALOG_OPERATIONS_INDEX),
								   AccessShareLock);
	TupleTableSlot *slot = table_slot_create(heap, NULL);
	SnapshotData dirty;
	IndexScanDesc scan;
	ScanKeyData keys[2];
	bool		found;

	InitDirtySnapshot(dirty);
	ScanKeyEntryInitialize(&keys[0], 0, 1, BTEqualStrategyNumber, InvalidOid,
						   C_COLLATION_OID, F_TEXTEQ, resource);
	ScanKeyEntryInitialize(&keys[1], 0, 2, BTEqualStrategyNumber, InvalidOid,
						   C_COLLATION_OID, F_TEXTEQ, operation);
	scan = index_beginscan_compat(heap, index, &dirty, 2);
	index_rescan(scan, keys, 2, NULL, 0);
	found = index_getnext_slot(scan, ForwardScanDirection, slot);
	*inserter = found ? dirty.xmin : InvalidTransactionId;

	index_endscan(scan);
	ExecDropSingleTupleTableSlot(slot);
	index_close(index, NoLock);
	return found;
}

/*
 * fence_operation_accept
 *
 * Record an operation of a resource. True the first time; false if it has been
 * accepted before, by whatever token. Waits for a transaction that is just
 * accepting it, and is first if that one rolls back.
 */
bool
fence_operation_accept(FenceString resource, FenceString operation,
					   int64 token, FenceString holder)
{
	Relation	heap = table_open(fence_catalog_oid(FENCE_CATALOG_OPERATIONS),
								  RowExclusiveLock);
	Oid			classid = RelationGetRelid(heap);
	Oid			objid = hash_combine(hash_bytes((const unsigned char *) resource.data,
												resource.len),
									 hash_bytes((const unsigned char *) operation.data,
												operation.len));
	Datum		values[Natts_operations];
	bool		nulls[Natts_operations] = {false};
	TransactionId inserter;
	bool		first;

	values[Anum_operations_resource - 1] = text_datum(resource);
	values[Anum_operations_operation - 1] = text_datum(operation);
	values[Anum_operations_token - 1] = Int64GetDatum(token);
	nulls[Anum_operations_holder - 1] = holder.data == NULL;
	if (holder.data != NULL)
		values[Anum_operations_holder - 1] = text_datum(holder);

	for (;;)
	{
		CHECK_FOR_INTERRUPTS();
		LockDatabaseObject(classid, objid, 0, ExclusiveLock);
		first = !find_operation(heap, values[Anum_operations_resource - 1],
								values[Anum_operations_operation - 1],
								&inserter);
		if (first)
		{
			values[Anum_operations_accepted_at - 1] =
				TimestampTzGetDatum(GetCurrentTimestamp());
			CatalogTupleInsert(heap, heap_form_tuple(RelationGetDescr(heap),
													 values, nulls));
			CommandCounterIncrement();
		}
		UnlockDatabaseObject(classid, objid, 0, ExclusiveLock);
		if (!TransactionIdIsValid(inserter))
			break;
		XactLockTableWait(inserter, NULL, NULL, XLTW_None);
	}
	table_close(heap, NoLock);
	return first;
}

/*
 * fence_operation_prune
 *
 * Forget the operations of resources with a prefix that were accepted before a
 * time. Returns how many.
 */
int64
fence_operation_prune(FenceString prefix, TimestampTz before)
{
	Relation	heap = table_open(fence_catalog_oid(FENCE_CATALOG_OPERATIONS),
								  RowExclusiveLock);
	Relation	index = index_open(fence_catalog_oid(FENCE_CATALOG_OPERATIONS_INDEX),
								   AccessShareLock);
	TupleTableSlot *slot = table_slot_create(heap, NULL);
	SnapshotData dirty;
	IndexScanDesc scan;
	ScanKeyData key;
	int64		pruned = 0;

	InitDirtySnapshot(dirty);
	ScanKeyEntryInitialize(&key, 0, 1, BTGreaterEqualStrategyNumber, InvalidOid,
						   C_COLLATION_OID, F_TEXT_GE, text_datum(prefix));
	scan = index_beginscan_compat(heap, index, &dirty, 1);
	index_rescan(scan, &key, 1, NULL, 0);
	while (index_getnext_slot(scan, ForwardScanDirection, slot))
	{
		text	   *resource;

		CHECK_FOR_INTERRUPTS();
		slot_getallattrs(slot);
		resource = DatumGetTextPP(slot->tts_values[Anum_operations_resource - 1]);
		if (VARSIZE_ANY_EXHDR(resource) < prefix.len ||
			memcmp(VARDATA_ANY(resource), prefix.data, prefix.len) != 0)
			break;

		/* Leave alone what others are inserting or deleting. */
		if (!TransactionIdIsValid(dirty.xmin) && !TransactionIdIsValid(dirty.xmax) &&
			DatumGetTimestampTz(slot->tts_values[Anum_operations_accepted_at - 1]) < before)
		{
			TM_FailureData failure;

			if (table_tuple_delete_compat(heap, &slot->tts_tid,
										  GetCurrentCommandId(true),
										  SnapshotAny, &failure) == TM_Ok)
				pruned++;
		}
	}
	index_endscan(scan);
	ExecDropSingleTupleTableSlot(slot);
	index_close(index, NoLock);
	table_close(heap, NoLock);
	CommandCounterIncrement();
	return pruned;
}
