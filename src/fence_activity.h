/*
 * fence_activity.h
 *		Admissions of open and prepared transactions, for others to see.
 */
#ifndef FENCE_ACTIVITY_H
#define FENCE_ACTIVITY_H

#include "fence_shared.h"

/* A consistent copy of one place. */
typedef struct FenceActivityCopy
{
	int			pid;			/* 0: prepared */
	TransactionId xid;
	Oid			role;
	TimestampTz since;
	int64		token;
	FenceText	resource;
} FenceActivityCopy;

extern void fence_activity_init(void);
extern void fence_activity_show(FenceString resource, int64 token);
extern void fence_activity_follow(int64 (*token_of) (FenceString resource));
extern bool fence_activity_read(int place, FenceActivityCopy *copy);
extern bool fence_activity_still(int place, const FenceActivityCopy *copy);

#endif							/* FENCE_ACTIVITY_H */
