/*
 * fence_version.h
 *		Which version of a row counts.
 */
#ifndef FENCE_VERSION_H
#define FENCE_VERSION_H

#include "access/htup.h"
#include "access/tableam.h"
#include "storage/buf.h"

extern TM_Result fence_version_judge(HeapTuple tuple, CommandId cid, Buffer buffer);

/* Did the latest committed transaction leave it, or this one? */
static inline bool
fence_version_is_live(TM_Result result)
{
	return result == TM_Ok || result == TM_BeingModified;
}

extern bool fence_version_in_slot_is_live(TupleTableSlot *slot);
extern void fence_version_in_slot_locker(TupleTableSlot *slot,
										 TransactionId *xmax, uint16 *infomask);

#endif							/* FENCE_VERSION_H */
