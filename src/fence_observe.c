/*
 * fence_observe.c
 *		How much of what is only observed goes to the log.
 *
 * Rule: a table that is observed may be written a million times without a
 * token, and its log must stay readable. A session writes so many lines per
 * second; the first line after that says how many were left out. All
 * violations are counted in lockfence.stats, whatever is logged.
 */
#include "postgres.h"

#include <limits.h>

#include "portability/instr_time.h"
#include "utils/guc.h"

#include "fence_observe.h"

static int	lines_per_second = 10;

/* The second that is running, and what it brought. */
static instr_time second_began;
static int	lines = 0;
static uint64 left_out = 0;		/* since the last line */

/*
 * fence_observe_init
 *
 * lockfence.observed_log_rate: how many lines a session may log per second
 * about violations of tables that are only observed.
 */
void
fence_observe_init(void)
{
	DefineCustomIntVariable("lockfence.observed_log_rate",
							"Sets how many observed violations a session logs per second.",
							"Zero logs none, -1 all.",
							&lines_per_second, 10, -1, INT_MAX,
							PGC_SUSET, 0, NULL, NULL, NULL);
}

/* Has this second had its lines? */
static bool
second_is_full(void)
{
	instr_time	elapsed;

	if (lines_per_second < 0)
		return false;
	INSTR_TIME_SET_CURRENT(elapsed);
	if (!INSTR_TIME_IS_ZERO(second_began))
		INSTR_TIME_SUBTRACT(elapsed, second_began);
	if (INSTR_TIME_IS_ZERO(second_began) || INSTR_TIME_GET_DOUBLE(elapsed) >= 1.0)
	{
		INSTR_TIME_SET_CURRENT(second_began);
		lines = 0;
	}
	return lines >= lines_per_second;
}

/*
 * fence_observe_level
 *
 * The level at which to report one violation: LOG, or one that few logs have
 * when there were enough lines.
 */
int
fence_observe_level(void)
{
	if (second_is_full())
	{
		left_out++;
		return DEBUG2;
	}
	lines++;
	if (left_out > 0)
		ereport(LOG,
				(errmsg(FENCE_OBSERVED_PREFIX "%llu more violations were not logged",
						(unsigned long long) left_out),
				 errdetail("A session logs no more of them per second than lockfence.observed_log_rate says. All are counted in lockfence.stats.")));
	left_out = 0;
	return LOG;
}
