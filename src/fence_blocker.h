/*
 * fence_blocker.h
 *		The transaction that keeps somebody from locking a row.
 */
#ifndef FENCE_BLOCKER_H
#define FENCE_BLOCKER_H

#include "lockfence.h"

typedef struct FenceBlocker
{
	TransactionId xid;			/* top transaction, or invalid if gone */
	bool		committing;		/* all it holds is a commit check's lock */
	bool		prepared;		/* running, but no process runs it */
} FenceBlocker;

extern void fence_blocker_set(FenceBlocker *blocker, TransactionId xid);
extern void fence_blocker_set_locker(FenceBlocker *blocker, TransactionId xmax,
									 uint16 infomask);

#endif							/* FENCE_BLOCKER_H */
