/*
 * fence_stats.c
 *		Counters of what happens, per database.
 *
 * Rules: counting is an addition in the backend's own memory. What a
 * transaction has counted goes to shared memory once, when it ends in whatever
 * way: a refusal rolls everything else back. Nothing can fail at that point,
 * so the memory is found before, by fence_stats_begin().
 *
 * A database has a place from its first use on. When all are taken, those of
 * dropped databases are given away; beyond that nothing is counted.
 */
#include "postgres.h"

#include "access/xact.h"
#include "miscadmin.h"
#include "utils/syscache.h"
#include "utils/timestamp.h"

#include "fence_stats.h"

uint64		fence_stats_pending[FENCE_COUNTERS];

bool		fence_stats_begun = false;

static FenceDatabase *database = NULL;	/* this one's place, if any */

/* Is this the place of a database that has been dropped? Reads the catalog. */
static bool
is_dropped(Oid oid)
{
	return oid != InvalidOid &&
		!SearchSysCacheExists1(DATABASEOID, ObjectIdGetDatum(oid));
}

/*
 * This database's place. If it has none, it gets the one given, if "was" is
 * still there; else the answer is NULL. Nobody counts any more in the place of
 * a dropped database, since its last backend ended before.
 */
static FenceDatabase *
take_place(FenceShared *shared, FenceDatabase *place, Oid was)
{
	FenceDatabase *found = NULL;

	LWLockAcquire(&shared->databases_lock, LW_EXCLUSIVE);
	for (int i = 0; i < FENCE_MAX_DATABASES && found == NULL; i++)
		if (shared->databases[i].database == MyDatabaseId)
			found = &shared->databases[i];
	if (found == NULL && place->database == was)
	{
		for (int s = 0; s < FENCE_SHARDS; s++)
			for (int c = 0; c < FENCE_COUNTERS; c++)
				pg_atomic_write_u64(&place->shards[s].counters[c], 0);
		pg_atomic_write_u64(&place->since, (uint64) GetCurrentTimestamp());
		place->database = MyDatabaseId;
		found = place;
	}
	LWLockRelease(&shared->databases_lock);
	return found;
}

/*
 * Find the database's place, or give it one: a free one, or else that of a
 * dropped database. NULL if there is none.
 */
static FenceDatabase *
find_place(FenceShared *shared)
{
	Oid			seen[FENCE_MAX_DATABASES];
	FenceDatabase *place = NULL;

	LWLockAcquire(&shared->databases_lock, LW_SHARED);
	for (int i = 0; i < FENCE_MAX_DATABASES; i++)
	{
		seen[i] = shared->databases[i].database;
		if (seen[i] == MyDatabaseId)
			place = &shared->databases[i];
	}
	LWLockRelease(&shared->databases_lock);

	for (int pass = 0; pass < 2; pass++)
		for (int i = 0; i < FENCE_MAX_DATABASES && place == NULL; i++)
			if (pass == 0 ? seen[i] == InvalidOid : is_dropped(seen[i]))
				place = take_place(shared, &shared->databases[i], seen[i]);
	return place;
}

/* Hand over what the transaction has counted. Must not fail. */
static void
flush(XactEvent event, void *arg)
{
	FenceShard *shard;

	if (!fence_stats_begun || (event != XACT_EVENT_COMMIT && event != XACT_EVENT_ABORT &&
							   event != XACT_EVENT_PREPARE))
		return;
	fence_stats_begun = false;
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

/* fence_stats_begin_slowly: the first call of fence_stats_begin() */
void
fence_stats_begin_slowly(void)
{
	static bool prepared = false;

	if (!prepared)
	{
		FenceShared *shared = fence_shared();

		if (shared != NULL)
			database = find_place(shared);
		RegisterXactCallback(flush, NULL);
		prepared = true;
	}
	fence_stats_begun = true;
}

/*
 * fence_stats_read
 *
 * The counters of this database. False if it has no place. What open
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

/* fence_stats_reset_counters: begin at zero; false without a place */
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
