/*
 * fence_stats.c
 *		Counters of what happens, per database.
 *
 * Rules: counting is an addition in the backend's own memory. What a
 * transaction has counted goes to shared memory once, when it ends in whatever
 * way: a refusal rolls everything else back. Nothing can fail at that point,
 * so the memory is found before, by fence_stats_begin().
 */
#include "postgres.h"

#include "access/xact.h"
#include "miscadmin.h"
#include "utils/timestamp.h"

#include "fence_stats.h"

uint64		fence_stats_pending[FENCE_COUNTERS];

static bool pending = false;	/* a transaction has begun to count */
static FenceDatabase *database = NULL;	/* this one's place, if any */

/* Give the database a place, if there is one left. */
static void
find_place(FenceShared *shared)
{
	LWLockAcquire(&shared->databases_lock, LW_EXCLUSIVE);
	for (int i = 0; i < FENCE_MAX_DATABASES && database == NULL; i++)
	{
		FenceDatabase *place = &shared->databases[i];

		if (place->database == InvalidOid)
		{
			place->database = MyDatabaseId;
			pg_atomic_write_u64(&place->since, (uint64) GetCurrentTimestamp());
		}
		if (place->database == MyDatabaseId)
			database = place;
	}
	LWLockRelease(&shared->databases_lock);
}

/* Hand over what the transaction has counted. Must not fail. */
static void
flush(XactEvent event, void *arg)
{
	FenceShard *shard;

	if (!pending || (event != XACT_EVENT_COMMIT && event != XACT_EVENT_ABORT &&
					 event != XACT_EVENT_PREPARE))
		return;
	pending = false;
	if (database != NULL)
	{
		shard = &database->shards[MyProcPid % FENCE_SHARDS];
		for (int i = 0; i < FENCE_COUNTERS; i++)
			if (fence_stats_pending[i] != 0)
				pg_atomic_fetch_add_u64(&shard->counters[i],
										fence_stats_pending[i]);
	}
	memset(fence_stats_pending, 0, sizeof(fence_stats_pending));
}

/*
 * fence_stats_begin
 *
 * Called where a transaction first meets lockfence, and may be called again.
 */
void
fence_stats_begin(void)
{
	static bool prepared = false;

	if (pending)
		return;
	if (!prepared)
	{
		FenceShared *shared = fence_shared();

		if (shared != NULL)
			find_place(shared);
		RegisterXactCallback(flush, NULL);
		prepared = true;
	}
	pending = true;
}

/*
 * fence_stats_read
 *
 * The counters of this database. False if there is no shared memory. What open
 * transactions have counted is not in yet.
 */
bool
fence_stats_read(uint64 *counters, TimestampTz *since)
{
	fence_stats_begin();
	if (database == NULL)
		return false;
	*since = (TimestampTz) pg_atomic_read_u64(&database->since);
	for (int c = 0; c < FENCE_COUNTERS; c++)
	{
		counters[c] = 0;
		for (int s = 0; s < FENCE_SHARDS; s++)
			counters[c] += pg_atomic_read_u64(&database->shards[s].counters[c]);
	}
	return true;
}

/* fence_stats_reset_counters: begin at zero; false without shared memory */
bool
fence_stats_reset_counters(void)
{
	fence_stats_begin();
	if (database == NULL)
		return false;
	for (int s = 0; s < FENCE_SHARDS; s++)
		for (int c = 0; c < FENCE_COUNTERS; c++)
			pg_atomic_write_u64(&database->shards[s].counters[c], 0);
	pg_atomic_write_u64(&database->since, (uint64) GetCurrentTimestamp());
	return true;
}
