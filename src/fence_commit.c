/*
 * fence_commit.c
 *		Checks the admissions of the current transaction again at its commit.
 *
 * Rules: the check runs as a transaction callback before commit and before
 * prepare. Callbacks run newest first, so the first admission of each
 * transaction, and each fence_check, moves this one to the front: before those
 * of modules that publish to other servers. It locks fences in byte order of
 * their resources, the order of everything that locks several.
 */
#include "postgres.h"

#include "access/xact.h"
#include "miscadmin.h"
#include "utils/snapmgr.h"

#include "debug_point.h"
#include "fence_commit.h"
#include "fence_offer.h"
#include "fence_right.h"
#include "fence_table.h"

/* How often one transaction can move its commit check to the front. */
#define MAX_FRONTS	100000

static bool checked = false;	/* nothing more is admitted */
static int	fronts = 0;			/* registrations for this transaction */

static void xact_callback(XactEvent event, void *arg);

/*
 * fence_commit_init
 *
 * Called by _PG_init. This registration stays where it is, behind all others
 * of ours: it checks what another module's callback has admitted before, and
 * from then on nothing is admitted.
 */
void
fence_commit_init(void)
{
	RegisterXactCallback(xact_callback, NULL);
}

/*
 * fence_commit_to_front
 *
 * Let the commit check run before callbacks registered up to now. A module
 * that registers its own later in the transaction would run before it. This
 * may be called by such a callback, in the middle of the list: therefore it
 * only adds to its beginning. What was added goes when the transaction ends.
 */
void
fence_commit_to_front(void)
{
	if (fronts > MAX_FRONTS)
		return;
	if (fronts == MAX_FRONTS)
		ereport(WARNING,
				(errmsg("the check at commit is not moved to the front any more"),
				 errdetail("This transaction has shown tokens %d times.", MAX_FRONTS),
				 errhint("A module that is first used in this transaction after this, such as postgres_fdw, may commit elsewhere before the check.")));
	else
		RegisterXactCallback(xact_callback, &fronts);
	fronts++;
}

/* fence_commit_checked: is it too late to admit anything? */
bool
fence_commit_checked(void)
{
	return checked;
}

/* The verdict at commit on a fence as it is now. */
static FenceVerdict
judge_again(const Admission *admission, const FenceRow *row,
			const FenceState *state)
{
	FenceVerdict verdict = fence_judge_commit(state, admission->token);

	if (verdict == FENCE_ACCEPT && !fence_offer_same_generation(admission, row))
		return FENCE_STALE;
	return verdict;
}

/* Judge one admission for the last time. */
static void
check_admission(FenceTable *table, const Admission *admission, bool lock)
{
	FenceOffer	offer = {0};
	FenceRow	row;
	FenceState	state;
	FenceVerdict verdict;

	offer.resource = fence_admission_resource(admission);
	offer.token = admission->token;
	offer.target = admission->target;
	offer.observe = admission->observed;

	(void) fence_table_read_at(table, offer.resource, &admission->fence, &row);
	fence_offer_state(offer.resource, &row, &state);
	if (admission->observed)
	{
		verdict = fence_judge_offer(&state, offer.token, offer.holder);
		if (verdict != FENCE_ACCEPT && verdict != FENCE_RAISE)
			fence_offer_refuse(&offer, verdict, FENCE_AT_COMMIT,
							   admission->by_right, &state);
		return;
	}

	/* Without the lock first: what is stale already need not wait for it. */
	verdict = judge_again(admission, &row, &state);
	if (verdict == FENCE_ACCEPT && lock && !row.mine)
	{
		if (fence_table_lock(table, offer.resource, LockTupleKeyShare,
							 &row) == FENCE_LOCKED)
			fence_row_state(&row, &state);
		else
			memset(&state, 0, sizeof(state));
		verdict = judge_again(admission, &row, &state);
	}
	if (verdict != FENCE_ACCEPT)
		fence_offer_refuse(&offer, verdict, FENCE_AT_COMMIT,
						   admission->by_right, &state);
}

/*
 * The commit check: every admission of the transaction must still be good, and
 * stays so until the transaction has ended, because no raise passes the lock.
 * Only a transaction that cannot have written anything goes without the lock.
 * A prepared transaction keeps it for as long as it likes.
 */
static void
check_admissions(bool prepare)
{
	bool		lock = !XactReadOnly ||
		TransactionIdIsValid(GetTopTransactionIdIfAny());
	uint64		count;
	FenceAdmitted *sorted = fence_admission_sorted(&count);
	FenceTable *table;

	PushActiveSnapshot(GetTransactionSnapshot());
	table = fence_table_open(lock ? RowShareLock : AccessShareLock);
	for (uint64 i = 0; i < count; i++)
	{
		const Admission *admission = sorted[i].admission;

		CHECK_FOR_INTERRUPTS();
		if (prepare && !admission->by_right && !admission->observed)
			fence_right_refuse_prepare(admission->target);
		check_admission(table, admission, lock);
	}
	fence_table_close(table);
	PopActiveSnapshot();
}

static void
xact_callback(XactEvent event, void *arg)
{
	switch (event)
	{
		case XACT_EVENT_PRE_COMMIT:
		case XACT_EVENT_PRE_PREPARE:
			if (fence_admission_any() && !checked)
			{
				DEBUG_POINT("commit-check");
				check_admissions(event == XACT_EVENT_PRE_PREPARE);
				checked = true;
				DEBUG_POINT("commit-checked");
			}
			if (arg == NULL)
				checked = true;
			break;

		case XACT_EVENT_COMMIT:
		case XACT_EVENT_PREPARE:
		case XACT_EVENT_ABORT:
			fence_admission_forget();
			checked = false;
			/* They have been called already, before this one. */
			if (arg == NULL)
				for (; fronts > 0; fronts--)
					UnregisterXactCallback(xact_callback, &fronts);
			break;

		default:				/* parallel workers admit nothing */
			break;
	}
}
