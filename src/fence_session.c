/*
 * fence_session.c
 *		Admits the current transaction for resources, and checks the admissions
 *		again at its commit.
 *
 * Rules: what an admission waits for is only ever another raise of the same
 * resource; showing the current token takes no lock and writes nothing.
 *
 * The commit check runs as a transaction callback before commit and before
 * prepare. Callbacks run newest first, so the first admission of each
 * transaction, and each fence_check, moves this one to the front: before those
 * of modules that publish to other servers. It locks fences in byte order of
 * their resources, the order of everything that locks several.
 */
#include "postgres.h"

#include "access/transam.h"
#include "access/xact.h"
#include "miscadmin.h"
#include "storage/lmgr.h"
#include "utils/snapmgr.h"

#include "debug_point.h"
#include "fence_activity.h"
#include "fence_durable.h"
#include "fence_prefix.h"
#include "fence_report.h"
#include "fence_right.h"
#include "fence_session.h"
#include "fence_stats.h"
#include "fence_table.h"

/* How often one transaction can move its commit check to the front. */
#define MAX_FRONTS	1000

static bool session_checked = false;	/* nothing more is admitted */
static int	fronts = 0;			/* registrations for this transaction */

static void xact_callback(XactEvent event, void *arg);

/*
 * fence_session_init
 *
 * Called by _PG_init. This registration stays where it is, behind all others
 * of ours: it checks what another module's callback has admitted before, and
 * from then on nothing is admitted.
 */
void
fence_session_init(void)
{
	RegisterXactCallback(xact_callback, NULL);
}

/*
 * fence_session_to_front
 *
 * Let the commit check run before callbacks registered up to now. A module
 * that registers its own later in the transaction would run before it. This
 * may be called by such a callback, in the middle of the list: therefore it
 * only adds to its beginning. What was added goes when the transaction ends.
 */
void
fence_session_to_front(void)
{
	if (fronts == MAX_FRONTS)
		return;
	RegisterXactCallback(xact_callback, &fronts);
	fronts++;
}

/* The token that this transaction is admitted with; 0 if it is not. */
static int64
token_of(FenceString resource)
{
	Admission  *admission = fence_admission_find(resource, false);

	return admission == NULL ? 0 : admission->token;
}

static void
subxact_callback(SubXactEvent event, SubTransactionId mine,
				 SubTransactionId parent, void *arg)
{
	fence_admission_end_subxact(event);
	if (event == SUBXACT_EVENT_ABORT_SUB)
		fence_activity_follow(token_of);
}

/* Remember an admission; the first of a transaction moves the callback up. */
static void
record(FenceString resource, bool observed, int64 token, Oid target,
	   const FenceRow *row)
{
	static bool follows = false;

	if (!follows)
		RegisterSubXactCallback(subxact_callback, NULL);
	follows = true;
	if (!fence_admission_any())
		fence_session_to_front();
	fence_admission_record(resource, observed, token, target, row->raised_by,
						   &row->tid);
	if (!observed)
		fence_activity_show(resource, token);
}

/* The state to judge a resource by; *row has been read. */
static void
judge_by(const FenceRow *row, FenceString resource, FenceState *state)
{
	if (row->found)
		fence_row_state(row, state);
	else
		fence_prefix_lookup(resource, state);
}

/* Refuse an offer, or log what would be refused. */
static void
refuse(FenceVerdict verdict, FencePlace place, const FenceOffer *offer,
	   const FenceState *state)
{
	FenceRefusal refusal = {0};

	refusal.verdict = verdict;
	refusal.place = place;
	refusal.resource = offer->resource;
	refusal.token = offer->token;
	refusal.holder = offer->holder;
	if (state->kind != FENCE_ABSENT)
	{
		refusal.fence = state->token;
		refusal.fence_holder = state->holder;
		refusal.fence_released = state->released;
	}
	refusal.target = offer->target;
	refusal.observed = offer->observe;
	fence_refuse(&refusal);
}

/*
 * Can this transaction see what the generations before this one wrote? Always
 * in READ COMMITTED, whose next statement has a new snapshot. A raise with a
 * transaction id that this cluster has not given out came with a restored
 * dump.
 */
static bool
raise_is_visible(const FenceRow *row)
{
	uint64		raised_by = U64FromFullTransactionId(row->raised_by);
	uint64		next;

	if (!IsolationUsesXactSnapshot() ||
		FullTransactionIdEquals(row->raised_by, GetTopFullTransactionIdIfAny()))
		return true;

	next = U64FromFullTransactionId(ReadNextFullTransactionId());
	if (raised_by >= next || next - raised_by > PG_INT32_MAX ||
		!TransactionIdIsNormal(XidFromFullTransactionId(row->raised_by)))
		return true;
	return !XidInMVCCSnapshot(XidFromFullTransactionId(row->raised_by),
							  GetTransactionSnapshot());
}

/*
 * With the first use of a resource locked: has it been absent all the time
 * since it was judged so? It may have been used and pruned meanwhile, which
 * leaves a floor. If not, the lock is given back.
 */
static bool
judged_still_holds(FenceTable *table, FenceString resource,
				   const FenceState *judged)
{
	FenceState	state;

	fence_prefix_lookup(resource, &state);
	if (state.floor == judged->floor &&
		state.accepts_external == judged->accepts_external)
		return true;
	fence_table_unlock_absent(table, resource);
	return false;
}

/*
 * Store an external token as the fence of its resource. Waits for a
 * transaction that is doing the same. False, with at most a lock taken, if the
 * fence is not any more what the caller judged by, as read into *row.
 */
static bool
raise_external(const FenceOffer *offer, const FenceState *judged, FenceRow *row)
{
	FenceTable *table;
	bool		raised = false;

	PreventCommandIfReadOnly("fence_check()");
	if (OidIsValid(offer->guard))
		fence_right_to_raise(offer->guard, offer->target);

	if (!row->found && TransactionIdIsValid(row->inserter))
	{
		XactLockTableWait(row->inserter, NULL, NULL, XLTW_None);
		return false;
	}

	table = fence_table_open(RowExclusiveLock);
	if (judged->kind == FENCE_ABSENT)
	{
		raised = fence_table_lock_absent(table, offer->resource) &&
			judged_still_holds(table, offer->resource, judged);
		if (raised)
		{
			fence_row_raise(row, offer->token, false, offer->holder);
			fence_table_insert(table, offer->resource, row);
		}
	}
	else if (fence_table_lock(table, offer->resource, LockTupleExclusive,
							  row) == FENCE_LOCKED &&
			 !row->issued && row->token == judged->token)
	{
		fence_row_raise(row, offer->token, false, offer->holder);
		fence_table_update(table, offer->resource, row);
		raised = true;
	}
	fence_table_close(table);
	if (raised)
		fence_commit_durably();
	return raised;
}

/* Judge an offer against the fence, and raise the fence if need be. */
static bool
admit_by_fence(const FenceOffer *offer, const Admission *before, FenceRow *row)
{
	FenceTable *table = fence_table_open(AccessShareLock);
	bool		admitted = false;

	for (;;)
	{
		FenceState	state;
		FenceVerdict verdict;

		CHECK_FOR_INTERRUPTS();
		(void) fence_table_read(table, offer->resource, row);
		judge_by(row, offer->resource, &state);
		verdict = fence_judge_offer(&state, offer->token, offer->holder);

		/*
		 * Rows were written under the token before. If the fence has left it,
		 * somebody else's generation lies in between, so they are stale
		 * whatever is offered now.
		 */
		if (before != NULL && offer->token != before->token &&
			(verdict == FENCE_ACCEPT || verdict == FENCE_RAISE) &&
			(offer->token < before->token || state.token != before->token))
		{
			FenceOffer	earlier = *offer;

			earlier.token = Min(before->token, offer->token);
			refuse(FENCE_STALE, FENCE_AT_STATEMENT, &earlier, &state);
			break;
		}

		if (verdict != FENCE_ACCEPT && verdict != FENCE_RAISE)
		{
			refuse(verdict, FENCE_AT_STATEMENT, offer, &state);
			break;
		}

		if (!offer->observe)
		{
			if (verdict == FENCE_ACCEPT && !raise_is_visible(row))
				fence_refuse_snapshot(offer->resource, offer->token);
			if (verdict == FENCE_RAISE && !raise_external(offer, &state, row))
				continue;
		}
		admitted = true;
		break;
	}

	fence_table_close(table);
	return admitted;
}

/*
 * fence_admit
 *
 * Admit this transaction for a resource with a token. Any function or trigger
 * that is shown a token calls it. Raises LF001, LF003 or LF004 if the token is
 * refused, 40001 if the snapshot is too old for it, 25006 if an external token
 * would have to be stored and must not be. Waits for another transaction only
 * to raise an external token. False only if a violation was observed.
 */
bool
fence_admit(const FenceOffer *offer)
{
	Admission  *before = fence_admission_find(offer->resource, offer->observe);
	FenceRow	row;

	fence_stats_begin();
	fence_count(FENCE_COUNT_CHECKS);
	if (before != NULL && before->token == offer->token &&
		offer->holder.data == NULL)
	{
		fence_count(FENCE_COUNT_ACCEPTED);
		return true;
	}

	PreventCommandDuringRecovery("fence_check()");
	PreventCommandIfParallelMode("fence_check()");
	if (session_checked && offer->observe)
		return true;			/* nobody would look at the admission */
	if (session_checked)
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("cannot admit resource \"%.*s\" while the transaction commits",
						offer->resource.len, offer->resource.data),
				 errdetail("The admissions of this transaction have already been checked.")));

	if (!admit_by_fence(offer, before, &row))
		return false;
	record(offer->resource, offer->observe, offer->token, offer->target, &row);
	fence_count(FENCE_COUNT_ACCEPTED);
	return true;
}

/*
 * fence_admitted
 *
 * Tell whether this transaction was admitted for a resource, and with which
 * token. With "observe", an admission that was only observed counts too.
 */
bool
fence_admitted(FenceString resource, bool observe, int64 *token)
{
	Admission  *admission = fence_admission_find(resource, false);

	if (admission == NULL && observe)
		admission = fence_admission_find(resource, true);
	if (admission == NULL)
		return false;
	*token = admission->token;
	return true;
}

/*
 * fence_session_before_raise
 *
 * Called with the locked row (or none) before this transaction starts a new
 * generation of a resource. If it was admitted for the resource with a token
 * that the fence has left, what it wrote under that token is stale.
 */
void
fence_session_before_raise(FenceString resource, const FenceRow *row)
{
	Admission  *admission = fence_admission_find(resource, false);
	FenceOffer	offer = {0};
	FenceState	state = {0};

	if (session_checked)
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("cannot raise the fence of resource \"%.*s\" while the transaction commits",
						resource.len, resource.data)));
	if (admission == NULL)
		return;
	if (row->found)
		fence_row_state(row, &state);
	if (row->found && state.token == admission->token && !state.released)
		return;
	offer.resource = resource;
	offer.token = admission->token;
	offer.target = admission->target;
	refuse(FENCE_STALE, FENCE_AT_STATEMENT, &offer, &state);
}

/*
 * fence_session_raised
 *
 * This transaction has raised the fence or holds the generation's lock: that
 * admits it.
 */
void
fence_session_raised(FenceString resource, const FenceRow *row)
{
	record(resource, false, row->token, InvalidOid, row);
}

/*
 * The verdict at commit on a fence as it is now. The same token raised once
 * more means that an administrator set the fence back to it: another
 * generation lies in between.
 */
static FenceVerdict
judge_again(const Admission *admission, const FenceRow *row,
			const FenceState *state)
{
	FenceVerdict verdict = fence_judge_commit(state, admission->token);

	if (verdict == FENCE_ACCEPT && !row->mine &&
		!FullTransactionIdEquals(row->raised_by, admission->raised_by))
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
	judge_by(&row, offer.resource, &state);
	if (admission->observed)
	{
		verdict = fence_judge_offer(&state, offer.token, offer.holder);
		if (verdict != FENCE_ACCEPT && verdict != FENCE_RAISE)
			refuse(verdict, FENCE_AT_COMMIT, &offer, &state);
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
		refuse(verdict, FENCE_AT_COMMIT, &offer, &state);
}

/*
 * The commit check: every admission of the transaction must still be good, and
 * stays so until the transaction has ended, because no raise passes the lock.
 * Only a transaction that cannot have written anything goes without the lock.
 */
static void
check_admissions(void)
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
		CHECK_FOR_INTERRUPTS();
		check_admission(table, sorted[i].admission, lock);
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
			if (fence_admission_any() && !session_checked)
			{
				DEBUG_POINT("commit-check");
				check_admissions();
				session_checked = true;
				DEBUG_POINT("commit-checked");
			}
			if (arg == NULL)
				session_checked = true;
			break;

		case XACT_EVENT_COMMIT:
		case XACT_EVENT_PREPARE:
		case XACT_EVENT_ABORT:
			fence_admission_forget();
			session_checked = false;
			/* They have been called already, before this one. */
			for (; arg == NULL && fronts > 0; fronts--)
				UnregisterXactCallback(xact_callback, &fronts);
			break;

		default:				/* parallel workers admit nothing */
			break;
	}
}
