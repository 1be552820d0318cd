/*
 * fence_version.c
 *		Which version of a row counts, whatever the transaction's snapshot.
 *
 * Rule: the caller has pinned the buffer.
 */
#include "postgres.h"

#include "access/heapam.h"
#include "access/htup_details.h"
#include "access/transam.h"
#include "access/xact.h"
#include "storage/bufmgr.h"
#include "storage/procarray.h"

#include "fence_version.h"

/*
 * fence_version_judge
 *
 * HeapTupleSatisfiesUpdate(), which answers "being modified" for as long as
 * anybody still holds a lock on a version, even if its update has committed.
 * Such a version is not live any more, and here the answer says so. The caller
 * has locked the buffer.
 */
TM_Result
fence_version_judge(HeapTuple tuple, CommandId cid, Buffer buffer)
{
	TM_Result	result = HeapTupleSatisfiesUpdate(tuple, cid, buffer);
	TransactionId updater;

	if (result != TM_BeingModified ||
		!(tuple->t_data->t_infomask & HEAP_XMAX_IS_MULTI) ||
		HEAP_XMAX_IS_LOCKED_ONLY(tuple->t_data->t_infomask))
		return result;

	updater = HeapTupleHeaderGetUpdateXid(tuple->t_data);
	if (!TransactionIdIsValid(updater) || TransactionIdIsInProgress(updater) ||
		!TransactionIdDidCommit(updater))
		return result;
	return ItemPointerEquals(&tuple->t_self, &tuple->t_data->t_ctid) ?
		TM_Deleted : TM_Updated;
}

/* fence_version_in_slot_is_live: fetched with any snapshot */
bool
fence_version_in_slot_is_live(TupleTableSlot *slot)
{
	HeapTuple	tuple = ExecFetchSlotHeapTuple(slot, false, NULL);
	Buffer		buffer = ((BufferHeapTupleTableSlot *) slot)->buffer;
	TM_Result	result;

	LockBuffer(buffer, BUFFER_LOCK_SHARE);
	result = fence_version_judge(tuple, GetCurrentCommandId(false), buffer);
	LockBuffer(buffer, BUFFER_LOCK_UNLOCK);
	return fence_version_is_live(result);
}

/* fence_version_in_slot_locker: who has updated or locked it, as stored */
void
fence_version_in_slot_locker(TupleTableSlot *slot, TransactionId *xmax,
							 uint16 *infomask)
{
	HeapTuple	tuple = ExecFetchSlotHeapTuple(slot, false, NULL);
	Buffer		buffer = ((BufferHeapTupleTableSlot *) slot)->buffer;

	LockBuffer(buffer, BUFFER_LOCK_SHARE);
	*xmax = HeapTupleHeaderGetRawXmax(tuple->t_data);
	*infomask = tuple->t_data->t_infomask;
	LockBuffer(buffer, BUFFER_LOCK_UNLOCK);
}
