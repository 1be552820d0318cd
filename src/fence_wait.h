/*
 * fence_wait.h
 *		Bounded waiting for a resource that somebody else has.
 */
#ifndef FENCE_WAIT_H
#define FENCE_WAIT_H

#include "portability/instr_time.h"
#include "storage/condition_variable.h"

#include "fence_table.h"

typedef struct FenceWait
{
	instr_time	start;
	int64		limit;			/* microseconds, as the caller allows */
	ConditionVariable *channel; /* where to be woken; NULL: look at intervals */
	bool		ready;			/* a wake-up from now on is not missed */
} FenceWait;

/* Why a look did not end in a grant. */
typedef struct FenceObstacle
{
	const char *reason;
	bool		passing;		/* a commit in progress: gone in a blink */
	int64		retry_after;	/* microseconds */
} FenceObstacle;

extern void fence_wait_begin(FenceWait *wait, int64 limit,
							 ConditionVariable *channel);
extern bool fence_wait_more(FenceWait *wait, const FenceObstacle *obstacle);
extern void fence_wait_end(FenceWait *wait);
extern void fence_obstacle_lease(FenceObstacle *obstacle, int64 remaining);
extern void fence_obstacle_elsewhere(FenceObstacle *obstacle, int64 remaining);
extern void fence_obstacle_partly(FenceObstacle *obstacle);
extern void fence_obstacle_lock(FenceObstacle *obstacle, FenceTable *table,
								const FenceRow *row);

#endif							/* FENCE_WAIT_H */
