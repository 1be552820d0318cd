/*
 * debug_point.c
 *		Wait points for isolation tests on any packaged server.
 *
 * Rule: absent from release builds. A point takes and gives back one advisory
 * lock, so that an isolation test sees the session as blocked.
 */
#include "postgres.h"

#include "debug_point.h"

#ifdef LOCKFENCE_DEBUG_POINTS

#include "miscadmin.h"
#include "storage/lock.h"
#include "utils/guc.h"

/* First key of the advisory lock; tests use pg_advisory_lock(7001, 0). */
#define DEBUG_POINT_CLASS 7001

static char *wanted = NULL;

/* debug_point_init: lockfence.debug_point, the place that is wanted */
void
debug_point_init(void)
{
	DefineCustomStringVariable("lockfence.debug_point",
							   "Names the debug point at which this session waits.",
							   NULL, &wanted, "", PGC_USERSET, 0,
							   NULL, NULL, NULL);
}

/*
 * debug_point
 *
 * Wait at this place if lockfence.debug_point names it, until nobody holds the
 * advisory lock.
 */
void
debug_point(const char *name)
{
	LOCKTAG		tag;

	if (wanted == NULL || strcmp(wanted, name) != 0)
		return;
	SET_LOCKTAG_ADVISORY(tag, MyDatabaseId, DEBUG_POINT_CLASS, 0, 2);
	(void) LockAcquire(&tag, ShareLock, false, false);
	LockRelease(&tag, ShareLock, false);
}

#endif
