/*
 * fence_table.c
 *		The only file that knows the heap and the index of lockfence.fence.
 *
 * Rules: a fence is read as the latest committed version, whatever the snapshot of
 * the transaction. The transaction's snapshot would accept a token that was
 * fenced after it was taken. A fresh MVCC snapshot would draw predicate locks
 * under SERIALIZABLE and fail writers of other resources. SnapshotSelf and
 * SnapshotDirty judge version by version while the scan moves: an update that
 * commits in between shows them the old version as dead and is not yet among
 * the index entries they collected, so a row that exists all the time is
 * missed. Therefore the scan runs with SnapshotAny and judges each version
 * with fence_version_judge(); see find_live() for what makes "absent" certain.
 *
 * Rows are locked before they are judged for a write, and written by the
 * functions that catalogs use, never by SQL: ON CONFLICT and row locks of a
 * REPEATABLE READ statement would answer 40001 where the truth is "stale".
 * Each write is followed by CommandCounterIncrement(), so that the
 * transaction's next look finds it. Rights are not checked here: the callers'
 * EXECUTE right decides.
 */
#include "postgres.h"

#include "access/genam.h"
#include "access/table.h"
#include "access/tableam.h"
#include "access/xact.h"
#include "catalog/indexing.h"
#include "catalog/pg_collation.h"
#include "common/hashfn.h"
#include "miscadmin.h"
#include "storage/bufmgr.h"
#include "storage/lmgr.h"
#include "storage/procarray.h"
#include "storage/smgr.h"
#include "utils/fmgroids.h"
#include "utils/rel.h"
#include "utils/snapmgr.h"

#include "compat.h"
#include "debug_point.h"
#include "fence_catalog.h"
#include "fence_hint.h"
#include "fence_hold.h"
#include "fence_table.h"
#include "fence_version.h"

struct FenceTable
{
	Relation	heap;
	IndexScanDesc scan;			/* NULL until it is needed */
	TupleTableSlot *slot;

	/* The scan's key: a text datum, which the scan points to. */
	int32		key_header;
	char		key_data[FENCE_MAX_RESOURCE];
};

/*
 * fence_table_open
 *
 * Open the table for any number of reads, or for locks and writes as the lock
 * mode allows. The lock stays until the end of the transaction, as with any
 * table. Raises an error if the extension's table is not there.
 */
FenceTable *
fence_table_open(LOCKMODE lockmode)
{
	FenceTable *table = palloc(sizeof(FenceTable));

	table->heap = table_open(fence_catalog_oid(FENCE_CATALOG_TABLE), lockmode);
	table->scan = NULL;
	table->slot = table_slot_create(table->heap, NULL);
	return table;
}

/* fence_table_close: after an error the resource owner does the same */
void
fence_table_close(FenceTable *table)
{
	if (table->scan != NULL)
	{
		Relation	index = table->scan->indexRelation;

		index_endscan(table->scan);
		index_close(index, NoLock);
	}
	ExecDropSingleTupleTableSlot(table->slot);
	table_close(table->heap, NoLock);
	pfree(table);
}

/* The heap tuple in the slot; the slot keeps its buffer pinned. */
static HeapTuple
slot_tuple(FenceTable *table, Buffer *buffer)
{
	*buffer = ((BufferHeapTupleTableSlot *) table->slot)->buffer;
	return ExecFetchSlotHeapTuple(table->slot, false, NULL);
}

/* Copy the version in the slot into *row, and let go of it. */
static void
take_row(FenceTable *table, FenceRow *row)
{
	Buffer		buffer;
	HeapTuple	tuple = slot_tuple(table, &buffer);

	row->found = true;
	row->inserter = InvalidTransactionId;
	row->tid = tuple->t_self;
	row->mine = TransactionIdIsCurrentTransactionId(HeapTupleHeaderGetXmin(tuple->t_data));
	fence_row_decode(row, table->slot);
	ExecClearTuple(table->slot);
}

/* The resource of the version in the slot, in its buffer. */
static FenceString
slot_resource(FenceTable *table)
{
	bool		isnull;
	text	   *name = DatumGetTextPP(slot_getattr(table->slot, Anum_fence_resource,
												   &isnull));
	FenceString resource;

	resource.data = VARDATA_ANY(name);
	resource.len = VARSIZE_ANY_EXHDR(name);
	return resource;
}

/* Start the index scan anew. */
static void
set_key(FenceTable *table, StrategyNumber strategy, RegProcedure procedure,
		FenceString bytes)
{
	ScanKeyData key;

	if (table->scan == NULL)
		table->scan = index_beginscan_compat(table->heap,
											 index_open(fence_catalog_oid(FENCE_CATALOG_INDEX),
														AccessShareLock),
											 SnapshotAny, 1);
	SET_VARSIZE(&table->key_header, VARHDRSZ + bytes.len);
	memcpy(table->key_data, bytes.data, bytes.len);
	ScanKeyEntryInitialize(&key, 0, 1, strategy, InvalidOid, C_COLLATION_OID,
						   procedure, PointerGetDatum(&table->key_header));
	index_rescan(table->scan, &key, 1, NULL, 0);
}

/*
 * find_live
 *
 * Put the live version of a resource into the slot: the one that the latest
 * committed transaction left, or this one. False if there is none; then
 * *inserter names a transaction that is just inserting one, if any.
 *
 * Finding none is believed only if nothing moved. A version that another
 * transaction has updated says that a newer one exists, which the index scan
 * may have missed because it read its leaf page before. So look again; from
 * the second look on, only an update that a snapshot taken before that look
 * counts as running can have hidden its successor.
 *
 * The caller holds a snapshot (active or registered), which keeps versions
 * that die meanwhile from being pruned away.
 */
static bool
find_live(FenceTable *table, FenceString resource, TransactionId *inserter)
{
	CommandId	cid = GetCurrentCommandId(false);
	Snapshot	before = NULL;

	for (;;)
	{
		bool		moved = false;

		CHECK_FOR_INTERRUPTS();
		*inserter = InvalidTransactionId;
		set_key(table, BTEqualStrategyNumber, F_TEXTEQ, resource);
		while (index_getnext_slot(table->scan, ForwardScanDirection, table->slot))
		{
			Buffer		heapbuf;
			HeapTuple	tuple = slot_tuple(table, &heapbuf);
			TransactionId xid;
			TM_Result	result;

			DEBUG_POINT("fence-probe");
			LockBuffer(heapbuf, BUFFER_LOCK_SHARE);
			result = fence_version_judge(tuple, cid, heapbuf);
			if (result == TM_Updated)
			{
				xid = HeapTupleHeaderGetUpdateXid(tuple->t_data);
				if (before == NULL || XidInMVCCSnapshot(xid, before))
					moved = true;
			}
			else if (result == TM_Invisible)
			{
				xid = HeapTupleHeaderGetXmin(tuple->t_data);
				if (!TransactionIdIsCurrentTransactionId(xid) &&
					TransactionIdIsInProgress(xid))
					*inserter = xid;
			}
			LockBuffer(heapbuf, BUFFER_LOCK_UNLOCK);

			if (fence_version_is_live(result))
			{
				if (before)
					UnregisterSnapshot(before);
				return true;
			}
		}

		if (before)
			UnregisterSnapshot(before);
		if (!moved)
			return false;
		before = RegisterSnapshot(GetLatestSnapshot());
	}
}

/*
 * Does a block exist? The storage manager's last known size is forgotten when
 * the table is truncated, which cannot happen while it is open. If the table has
 * grown since, that costs a system call only.
 */
static bool
block_exists(FenceTable *table, BlockNumber block)
{
	BlockNumber known = RelationGetSmgr(table->heap)->smgr_cached_nblocks[MAIN_FORKNUM];

	return (BlockNumberIsValid(known) && block < known) ||
		block < RelationGetNumberOfBlocks(table->heap);
}

/* Read the version at a place, if it is the live one of the resource. */
static bool
read_version(FenceTable *table, FenceString resource, ItemPointerData tid,
			 FenceRow *row)
{
	if (!block_exists(table, ItemPointerGetBlockNumber(&tid)) ||
		!table_tuple_fetch_row_version(table->heap, &tid, SnapshotAny, table->slot) ||
		!fence_version_in_slot_is_live(table->slot) ||
		!fence_string_equal(slot_resource(table), resource))
		return false;
	take_row(table, row);
	return true;
}

/* fence_table_read: the latest committed fence, or this transaction's own */
bool
fence_table_read(FenceTable *table, FenceString resource, FenceRow *row)
{
	ItemPointerData hint;

	if (fence_hint_find(resource, &hint) && read_version(table, resource, hint, row))
		return true;

	ItemPointerSetInvalid(&row->tid);
	row->raised_by = InvalidFullTransactionId;
	row->found = find_live(table, resource, &row->inserter);
	if (!row->found)
		return false;
	take_row(table, row);
	fence_hint_set(resource, &row->tid);
	return true;
}

/* fence_table_read_at: looks first where this transaction has seen the row */
bool
fence_table_read_at(FenceTable *table, FenceString resource,
					const ItemPointerData *where, FenceRow *row)
{
	if (ItemPointerIsValid(where) && read_version(table, resource, *where, row))
		return true;
	return fence_table_read(table, resource, row);
}

/* Lock one version, or the last one it leads to if the flags say so. */
static FenceLock
lock_version(FenceTable *table, ItemPointerData tid, LockTupleMode mode,
			 LockWaitPolicy policy, uint8 flags)
{
	TM_FailureData failure;
	TM_Result	result;

	result = table_tuple_lock(table->heap, &tid, SnapshotAny, table->slot,
							  GetCurrentCommandId(false), mode, policy, flags,
							  &failure);
	switch (result)
	{
		case TM_Ok:
			if (mode != LockTupleKeyShare)
				fence_hold_note();
			return FENCE_LOCKED;
		case TM_WouldBlock:
			return FENCE_WOULD_BLOCK;
		case TM_Updated:
		case TM_Deleted:
			return FENCE_CHANGED;
		default:
			elog(ERROR, "unexpected result %d of locking a fence", result);
	}
}

/*
 * fence_table_lock
 *
 * Lock the latest version of a resource's row and read it, FENCE_LOCKED or
 * FENCE_NOT_FOUND. *row is as a read has left it, which saves the look, or
 * not found. The table was opened with RowShareLock at least. Waits as any row
 * lock does: lock_timeout and the deadlock detector apply.
 */
FenceLock
fence_table_lock(FenceTable *table, FenceString resource, LockTupleMode mode,
				 FenceRow *row)
{
	for (;;)
	{
		if (!row->found && !fence_table_read(table, resource, row))
			return FENCE_NOT_FOUND;

		if (lock_version(table, row->tid, mode, LockWaitBlock,
						 TUPLE_LOCK_FLAG_LOCK_UPDATE_IN_PROGRESS |
						 TUPLE_LOCK_FLAG_FIND_LAST_VERSION) == FENCE_LOCKED)
		{
			take_row(table, row);
			return FENCE_LOCKED;
		}
		row->found = false;
	}
}

/*
 * fence_table_lock_seen
 *
 * Lock the version that fence_table_read() has just found, without waiting:
 * FENCE_LOCKED, FENCE_WOULD_BLOCK, or FENCE_CHANGED with nothing locked if
 * there is a newer one. What the caller decided by the row stays true.
 */
FenceLock
fence_table_lock_seen(FenceTable *table, const FenceRow *row, LockTupleMode mode)
{
	FenceLock	result = lock_version(table, row->tid, mode, LockWaitSkip, 0);

	ExecClearTuple(table->slot);
	return result;
}

/*
 * fence_table_blocker
 *
 * Tell whom a lock attempt met, after FENCE_WOULD_BLOCK or with an inserter.
 * The answer may be out of date at once; it serves waiting and messages.
 */
void
fence_table_blocker(FenceTable *table, const FenceRow *row, FenceBlocker *blocker)
{
	ItemPointerData tid = row->tid;

	fence_blocker_set(blocker, row->found ? InvalidTransactionId : row->inserter);
	if (!row->found)
		return;
	if (table_tuple_fetch_row_version(table->heap, &tid, SnapshotAny, table->slot))
	{
		TransactionId xmax;
		uint16		infomask;

		fence_version_in_slot_locker(table->slot, &xmax, &infomask);
		fence_blocker_set_locker(blocker, xmax, infomask);
	}
	ExecClearTuple(table->slot);
}

/* The object that stands for the first use of a resource. */
static Oid
first_use(FenceString resource)
{
	return hash_bytes((const unsigned char *) resource.data, resource.len);
}

/*
 * fence_table_lock_absent
 *
 * Get ready to insert the first fence of a resource. True if there is none and
 * nobody is inserting one; then fence_table_insert() must follow, or
 * fence_table_unlock_absent(). First uses are put in order by a lock on the
 * table's object and the key's hash, held from here to the insertion: after
 * that the row itself tells.
 */
bool
fence_table_lock_absent(FenceTable *table, FenceString resource)
{
	TransactionId inserter;

	DEBUG_POINT("first-use");
	LockDatabaseObject(RelationGetRelid(table->heap), first_use(resource), 0,
					   ExclusiveLock);
	if (!find_live(table, resource, &inserter) && !TransactionIdIsValid(inserter))
		return true;
	ExecClearTuple(table->slot);
	fence_table_unlock_absent(table, resource);
	return false;
}

/* fence_table_unlock_absent: let others use it first, nothing was inserted */
void
fence_table_unlock_absent(FenceTable *table, FenceString resource)
{
	UnlockDatabaseObject(RelationGetRelid(table->heap), first_use(resource), 0,
						 ExclusiveLock);
}

/* fence_table_insert: store the first fence after fence_table_lock_absent() */
void
fence_table_insert(FenceTable *table, FenceString resource, FenceRow *row)
{
	HeapTuple	tuple = fence_row_form(row, resource,
									   RelationGetDescr(table->heap));

	CatalogTupleInsert(table->heap, tuple);
	row->tid = tuple->t_self;
	fence_hint_set(resource, &row->tid);
	fence_hold_note();
	heap_freetuple(tuple);
	CommandCounterIncrement();
	fence_table_unlock_absent(table, resource);
}

/*
 * fence_table_update
 *
 * Write a row that fence_table_lock() has locked and the caller has changed.
 */
void
fence_table_update(FenceTable *table, FenceString resource, FenceRow *row)
{
	HeapTuple	tuple = fence_row_form(row, resource,
									   RelationGetDescr(table->heap));
	ItemPointerData tid = row->tid;

	CatalogTupleUpdate(table->heap, &tid, tuple);
	row->tid = tuple->t_self;
	fence_hint_set(resource, &row->tid);
	heap_freetuple(tuple);
	CommandCounterIncrement();
}

/*
 * fence_table_scan
 *
 * Begin a walk over all resources with a prefix, in byte order. Until it is
 * done only fence_table_next(), _lock_seen() and _delete() may be called.
 */
void
fence_table_scan(FenceTable *table, FenceString prefix)
{
	set_key(table, BTGreaterEqualStrategyNumber, F_TEXT_GE, prefix);
}

/*
 * fence_table_next
 *
 * The next resource, or false at the end. The resource's bytes are in memory
 * that the caller frees. What a concurrent update hides from the walk is left
 * out.
 */
bool
fence_table_next(FenceTable *table, FenceString prefix, FenceString *resource,
				 FenceRow *row)
{
	while (index_getnext_slot(table->scan, ForwardScanDirection, table->slot))
	{
		FenceString name = slot_resource(table);

		CHECK_FOR_INTERRUPTS();
		if (name.len < prefix.len || memcmp(name.data, prefix.data, prefix.len) != 0)
			break;
		if (!fence_version_in_slot_is_live(table->slot))
			continue;

		resource->len = name.len;
		resource->data = pnstrdup(name.data, name.len);
		take_row(table, row);
		return true;
	}
	ExecClearTuple(table->slot);
	return false;
}

/*
 * fence_table_delete
 *
 * Forget a fence that fence_table_lock_seen() has locked. The transaction sees
 * it gone after its next CommandCounterIncrement().
 */
void
fence_table_delete(FenceTable *table, const FenceRow *row)
{
	ItemPointerData tid = row->tid;

	CatalogTupleDelete(table->heap, &tid);
}
