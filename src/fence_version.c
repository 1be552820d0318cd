/*
 * fence_version.c
 *		Which version of a row counts, whatever the transaction's snapshot.
 *
 * Rule: the caller has pinned and locked the buffer.
 */
#include "postgres.h"

#include "access/heapam.h"
#include "access/htup_details.h"
#include "access/transam.h"
#include "storage/procarray.h"

#include "fence_version.h"

/*
 * fence_version_judge
 *
 * HeapTupleSatisfiesUpdate(), which answers "being modified" for as long as
 * anybody still holds a lock on a version, even if its update has committed.
 * Such a version is not live any more, and here the answer says so.
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
