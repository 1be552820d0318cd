/*
 * fence_wait.c
 *		Waits between two looks at a resource, and names what is in the way.
 *
 * Rules: nothing is locked while this waits. It wakes for a cancel or a
 * termination at once, when a lease expires, and when a transaction that
 * changed the resource ends. Without shared memory that is noticed at the next
 * look, at most POLL_MAX later.
 */
#include "postgres.h"

#include "access/xact.h"
#include "executor/spi.h"
#include "miscadmin.h"
#include "storage/latch.h"
#include "utils/builtins.h"

#include "compat.h"
#include "fence_wait.h"

/* Microseconds. */
#define POLL_MAX		(INT64CONST(50000))
#define POLL_WOKEN		(INT64CONST(90000)) /* COMMIT PREPARED wakes nobody */
#define POLL_PASSING	(INT64CONST(1000))
#define PASSING_GRACE	(INT64CONST(100000))	/* the blink of a commit */

/*
 * fence_wait_begin
 *
 * Start counting. With a channel the caller is woken when something happens
 * to the resource.
 */
void
fence_wait_begin(FenceWait *wait, int64 limit, ConditionVariable *channel)
{
	INSTR_TIME_SET_CURRENT(wait->start);
	wait->limit = limit;
	wait->channel = channel;
	wait->ready = false;
}

/* Microseconds until the caller's time is over. */
static int64
time_left(const FenceWait *wait, const FenceObstacle *obstacle)
{
	instr_time	elapsed;
	int64		limit = wait->limit;

	INSTR_TIME_SET_CURRENT(elapsed);
	INSTR_TIME_SUBTRACT(elapsed, wait->start);
	if (obstacle->passing)
		limit = Max(limit, PASSING_GRACE);
	return limit - (int64) INSTR_TIME_GET_MICROSEC(elapsed);
}

/*
 * fence_wait_more
 *
 * Sleep before the next look. False if the time is over. The first call only
 * gets ready to be woken: what happened since the look before must be seen
 * first.
 */
bool
fence_wait_more(FenceWait *wait, const FenceObstacle *obstacle)
{
	int64		left = time_left(wait, obstacle);
	int64		pause = wait->channel != NULL ? POLL_WOKEN : POLL_MAX;
	long		milliseconds;

	if (left <= 0)
		return false;
	if (wait->channel != NULL && !wait->ready)
	{
		ConditionVariablePrepareToSleep(wait->channel);
		wait->ready = true;
		return true;
	}

	if (obstacle->passing)
		pause = POLL_PASSING;
	else if (obstacle->retry_after > 0)
		pause = Min(pause, obstacle->retry_after);
	milliseconds = (Min(pause, left) + 999) / 1000;

	if (wait->channel != NULL)
		(void) ConditionVariableTimedSleep(wait->channel, milliseconds,
										   wait_event_acquire_compat());
	else
	{
		(void) WaitLatch(MyLatch,
						 WL_LATCH_SET | WL_TIMEOUT | WL_EXIT_ON_PM_DEATH,
						 milliseconds, wait_event_acquire_compat());
		ResetLatch(MyLatch);
	}
	CHECK_FOR_INTERRUPTS();
	return true;
}

/* fence_wait_end: after the last look; an error does it by itself */
void
fence_wait_end(FenceWait *wait)
{
	if (wait->ready)
		ConditionVariableCancelSleep();
}

/* fence_obstacle_lease: another holder's lease, with the microseconds it has */
void
fence_obstacle_lease(FenceObstacle *obstacle, int64 remaining)
{
	obstacle->reason = "held by another holder";
	obstacle->passing = false;
	obstacle->retry_after = remaining;
}

/* fence_obstacle_elsewhere: a lease of another authority, maybe one's own */
void
fence_obstacle_elsewhere(FenceObstacle *obstacle, int64 remaining)
{
	fence_obstacle_lease(obstacle, remaining);
	obstacle->reason = "held on another lease authority";
}

/* fence_obstacle_partly: the caller itself, on some of several resources */
void
fence_obstacle_partly(FenceObstacle *obstacle)
{
	obstacle->reason = "this holder has another lease on part of the resources";
	obstacle->passing = false;
	obstacle->retry_after = POLL_MAX;
}

/* The name of a prepared transaction, or NULL if it is gone. */
static char *
prepared_gid(TransactionId xid)
{
	Oid			type = XIDOID;
	Datum		value = TransactionIdGetDatum(xid);
	MemoryContext caller = CurrentMemoryContext;
	char	   *gid = NULL;

	SPI_connect();
	if (SPI_execute_with_args("SELECT p.gid FROM pg_catalog.pg_prepared_xact() p"
							  " WHERE p.transaction OPERATOR(pg_catalog.=) $1",
							  1, &type, &value, NULL, true, 1) != SPI_OK_SELECT)
		elog(ERROR, "could not read prepared transactions");
	if (SPI_processed == 1)
		gid = MemoryContextStrdup(caller,
								  SPI_getvalue(SPI_tuptable->vals[0],
											   SPI_tuptable->tupdesc, 1));
	SPI_finish();
	return gid;
}

/*
 * fence_obstacle_lock: who has the row locked, or is inserting it. What looks
 * prepared and has no name has just ended.
 */
void
fence_obstacle_lock(FenceObstacle *obstacle, FenceTable *table,
					const FenceRow *row)
{
	FenceBlocker blocker;
	char	   *gid = NULL;

	fence_table_blocker(table, row, &blocker);
	if (blocker.prepared)
		gid = prepared_gid(blocker.xid);

	obstacle->passing = false;
	obstacle->retry_after = POLL_MAX;
	if (gid != NULL)
		obstacle->reason = psprintf("prepared transaction \"%s\"", gid);
	else if (blocker.committing || blocker.prepared ||
			 !TransactionIdIsValid(blocker.xid))
	{
		obstacle->reason = "a commit is in progress";
		obstacle->passing = true;
	}
	else
		obstacle->reason = "another transaction that changes this resource has not ended";
}
