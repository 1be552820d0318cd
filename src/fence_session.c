/*
 * fence_session.c
 *		Admits the current transaction for resources.
 *
 * Rules: what an admission waits for is only ever another raise of the same
 * resource; showing the current token takes no lock and writes nothing. What is
 * admitted here is checked again by fence_commit.c.
 */
#include "postgres.h"

#include "access/transam.h"
#include "access/xact.h"
#include "miscadmin.h"
#include "storage/lmgr.h"
#include "utils/snapmgr.h"

#include "fence_activity.h"
#include "fence_commit.h"
#include "fence_durable.h"
#include "fence_prefix.h"
#include "fence_report.h"
#include "fence_right.h"
#include "fence_session.h"
#include "fence_stats.h"
#include "fence_table.h"

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
	   bool by_right, const FenceRow *row)
{
	static bool follows = false;

	if (!follows)
		RegisterSubXactCallback(subxact_callback, NULL);
	follows = true;
	if (!fence_admission_any())
		fence_commit_to_front();
	fence_admission_record(resource, observed, token, target, by_right,
						   row->raised_by, &row->tid);
	if (!observed)
		fence_activity_show(resource, token);
}

static void
refuse(const FenceOffer *offer, FenceVerdict verdict, const FenceState *state)
{
	fence_offer_refuse(offer, verdict, FENCE_AT_STATEMENT,
					   fence_right_through(offer->guard, offer->target), state);
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
	FullTransactionId raised_by = row->raised_by;
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
			 !row->issued && row->token == judged->token &&
			 FullTransactionIdEquals(row->raised_by, raised_by))
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

/*
 * Rows were written under a token before. If the fence has left its generation,
 * somebody else's lies in between, so they are stale whatever is offered now.
 * What is only observed raises nothing, so the fence may be behind it.
 */
static bool
left_behind(const FenceOffer *offer, const Admission *before,
			const FenceRow *row, const FenceState *state)
{
	if (offer->token < before->token)
		return true;
	if (offer->observe)
		return state->token > before->token;
	return !fence_offer_same_generation(before, row);
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
		fence_offer_state(offer->resource, row, &state);
		verdict = fence_judge_offer(&state, offer->token, offer->holder);

		if (before != NULL &&
			(verdict == FENCE_ACCEPT || verdict == FENCE_RAISE) &&
			left_behind(offer, before, row, &state))
		{
			FenceOffer	earlier = *offer;

			earlier.token = Min(before->token, offer->token);
			refuse(&earlier, FENCE_STALE, &state);
			break;
		}

		if (verdict != FENCE_ACCEPT && verdict != FENCE_RAISE)
		{
			refuse(offer, verdict, &state);
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
		offer->holder.data == NULL &&
		(before->by_right || OidIsValid(offer->guard)))
	{
		fence_count(FENCE_COUNT_ACCEPTED);
		return true;
	}

	PreventCommandDuringRecovery("fence_check()");
	PreventCommandIfParallelMode("fence_check()");
	if (fence_commit_checked() && offer->observe)
		return true;			/* nobody would look at the admission */
	if (fence_commit_checked())
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("cannot admit resource \"%.*s\" while the transaction commits",
						offer->resource.len, offer->resource.data),
				 errdetail("The admissions of this transaction have already been checked.")));

	if (!admit_by_fence(offer, before, &row))
		return false;
	record(offer->resource, offer->observe, offer->token, offer->target,
		   fence_right_through(offer->guard, offer->target), &row);
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

	if (fence_commit_checked())
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("cannot raise the fence of resource \"%.*s\" while the transaction commits",
						resource.len, resource.data)));
	if (admission == NULL)
		return;
	if (row->found)
		fence_row_state(row, &state);
	if (fence_offer_same_generation(admission, row) && !state.released)
		return;
	offer.resource = resource;
	offer.token = admission->token;
	offer.target = admission->target;
	refuse(&offer, FENCE_STALE, &state);
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
	record(resource, false, row->token, InvalidOid, true, row);
}
