/*
 * fence_activity.c
 *		Admissions of open and prepared transactions, for others to see.
 *
 * Rules: each place has one owner at a time, which took it with an atomic
 * exchange; nobody waits for anybody. An owner that changes a place makes its
 * change count odd before and even after; a reader that sees an odd or a
 * changed count copies again, for a while, and then passes the place over: its
 * owner may have been stopped half-way. A place bears its owner's pid only once
 * it shows the owner's admission: nobody must be blamed for what was there
 * before. The places of a transaction are given back when it ends, or stay in
 * the name of its transaction id when it is prepared, and are free once that is
 * no longer running.
 *
 * A transaction shows no more than PER_TRANSACTION admissions: who loads a
 * million resources is visible with the first of them. If the places that it
 * looks at are taken, it shows none, rather than search long each time.
 */
#include "postgres.h"

#include "access/transam.h"
#include "access/xact.h"
#include "miscadmin.h"
#include "storage/procarray.h"
#include "utils/guc.h"
#include "utils/timestamp.h"

#include "debug_point.h"
#include "fence_activity.h"

#define PER_TRANSACTION	16
#define LOOK_AT			256
#define MAX_COPIES		100000	/* some milliseconds */

static int	max_tracked = 1024;
static int	places[PER_TRANSACTION];
static int	nplaces = 0;
static bool no_room = false;	/* found none in this transaction */

/*
 * fence_activity_init
 *
 * lockfence.max_tracked_admissions: how many admissions lockfence.activity
 * has room for. The memory for the greatest number is always there.
 */
void
fence_activity_init(void)
{
	DefineCustomIntVariable("lockfence.max_tracked_admissions",
							"Sets how many admissions of open transactions are shown.",
							"Zero shows none.",
							&max_tracked, 1024, 0, FENCE_MAX_ACTIVITY,
							PGC_SIGHUP, 0, NULL, NULL, NULL);
}

static void
begin_change(FenceActivity *activity)
{
	pg_atomic_fetch_add_u32(&activity->changes, 1);
	pg_write_barrier();
}

static void
end_change(FenceActivity *activity)
{
	pg_write_barrier();
	pg_atomic_fetch_add_u32(&activity->changes, 1);
}

/* Take a place that is free, or whose prepared transaction is over. */
static bool
take_place(FenceActivity *activity, bool prepared)
{
	uint32		owner = pg_atomic_read_u32(&activity->owner);

	if (owner != (prepared ? FENCE_ACTIVITY_PREPARED : 0) ||
		(prepared && TransactionIdIsInProgress(activity->xid)))
		return false;
	return pg_atomic_compare_exchange_u32(&activity->owner, &owner,
										  FENCE_ACTIVITY_TAKEN);
}

/* A place for one more admission, or -1. Finished prepared ones come last. */
static int
find_place(FenceShared *shared)
{
	uint32		start = (uint32) MyProcPid * PER_TRANSACTION;
	int			count = Min(max_tracked, LOOK_AT);

	for (int prepared = 0; prepared < 2; prepared++)
		for (int i = 0; i < count; i++)
		{
			int			place = (start + i) % max_tracked;

			if (take_place(&shared->activity[place], prepared))
				return place;
		}
	return -1;
}

/* The transaction is over, or prepared. Must not fail. */
static void
end_transaction(XactEvent event, void *arg)
{
	FenceShared *shared;

	if (event != XACT_EVENT_COMMIT && event != XACT_EVENT_ABORT &&
		event != XACT_EVENT_PRE_PREPARE && event != XACT_EVENT_PREPARE)
		return;
	no_room = false;
	if (nplaces == 0)
		return;
	shared = fence_shared();
	for (int i = 0; i < nplaces; i++)
	{
		FenceActivity *activity = &shared->activity[places[i]];

		if (event == XACT_EVENT_PRE_PREPARE)
			activity->xid = GetTopTransactionIdIfAny();
		else if (event == XACT_EVENT_PREPARE && TransactionIdIsValid(activity->xid))
			pg_atomic_write_u32(&activity->owner, FENCE_ACTIVITY_PREPARED);
		else
			pg_atomic_write_u32(&activity->owner, 0);
	}
	if (event != XACT_EVENT_PRE_PREPARE)
		nplaces = 0;
}

/* Write an admission into a place of this backend's. */
static void
write_place(FenceActivity *activity, FenceString resource, int64 token)
{
	begin_change(activity);
	activity->xid = InvalidTransactionId;
	activity->database = MyDatabaseId;
	activity->role = GetSessionUserId();
	activity->since = GetCurrentTransactionStartTimestamp();
	activity->token = token;
	DEBUG_POINT("activity-write");
	fence_text_set(&activity->resource, resource);
	end_change(activity);
}

/*
 * fence_activity_show
 *
 * Show that this transaction is admitted for a resource, as far as there is
 * room. A token that replaces an earlier one takes its place.
 */
void
fence_activity_show(FenceString resource, int64 token)
{
	static bool registered = false;
	FenceShared *shared = fence_shared();
	int			place;

	if (shared == NULL)
		return;
	if (!registered)
	{
		RegisterXactCallback(end_transaction, NULL);
		registered = true;
	}

	for (int i = 0; i < nplaces; i++)
	{
		FenceActivity *activity = &shared->activity[places[i]];

		if (fence_string_equal(fence_text_get(&activity->resource), resource))
		{
			write_place(activity, resource, token);
			return;
		}
	}
	if (nplaces == PER_TRANSACTION || max_tracked == 0 || no_room)
		return;

	place = find_place(shared);
	no_room = place < 0;
	if (no_room)
		return;
	write_place(&shared->activity[place], resource, token);
	pg_atomic_write_u32(&shared->activity[place].owner, MyProcPid);
	places[nplaces++] = place;
}

/*
 * fence_activity_follow
 *
 * A subtransaction was rolled back: show what the transaction is admitted for
 * now. token_of() tells the token of a resource, 0 for none. Must not fail.
 */
void
fence_activity_follow(int64 (*token_of) (FenceString resource))
{
	for (int i = nplaces - 1; i >= 0; i--)
	{
		FenceActivity *activity = &fence_shared()->activity[places[i]];
		int64		token = token_of(fence_text_get(&activity->resource));

		if (token == 0)
		{
			pg_atomic_write_u32(&activity->owner, 0);
			places[i] = places[--nplaces];
		}
		else if (token != activity->token)
		{
			begin_change(activity);
			activity->token = token;
			end_change(activity);
		}
	}
}

/*
 * fence_activity_read
 *
 * Copy one place, if it shows an admission in this database. The caller has
 * found the shared memory.
 */
bool
fence_activity_read(int place, FenceActivityCopy *copy)
{
	FenceActivity *activity = &fence_shared()->activity[place];

	for (int copies = 0; copies < MAX_COPIES; copies++)
	{
		uint32		owner = pg_atomic_read_u32(&activity->owner);
		uint32		before = pg_atomic_read_u32(&activity->changes);
		Oid			database;

		CHECK_FOR_INTERRUPTS();
		if (owner == 0 || owner == FENCE_ACTIVITY_TAKEN)
			return false;
		pg_read_barrier();
		database = activity->database;
		copy->pid = owner == FENCE_ACTIVITY_PREPARED ? 0 : (int) owner;
		copy->xid = activity->xid;
		copy->role = activity->role;
		copy->since = activity->since;
		copy->token = activity->token;
		memcpy(&copy->resource, &activity->resource, sizeof(FenceText));
		pg_read_barrier();
		if (before % 2 == 0 &&
			pg_atomic_read_u32(&activity->changes) == before &&
			pg_atomic_read_u32(&activity->owner) == owner)
			return database == MyDatabaseId &&
				(copy->pid != 0 || TransactionIdIsInProgress(copy->xid));
	}
	return false;
}

/* fence_activity_still: does the place show the same admission of the same one? */
bool
fence_activity_still(int place, const FenceActivityCopy *copy)
{
	FenceActivityCopy now;

	return fence_activity_read(place, &now) && now.pid == copy->pid &&
		now.since == copy->since && now.token == copy->token &&
		fence_string_equal(fence_text_get(&now.resource),
						   fence_text_get(&copy->resource));
}
