/*
 * fence_offer.c
 *		Holds a token that is shown against the fence of its resource.
 *
 * Rule: nothing here decides; fence_rule.c does.
 */
#include "postgres.h"

#include "fence_offer.h"
#include "fence_prefix.h"

/* fence_offer_state: what to judge a resource by; *row has been read */
void
fence_offer_state(FenceString resource, const FenceRow *row, FenceState *state)
{
	if (row->found)
		fence_row_state(row, state);
	else
		fence_prefix_lookup(resource, state);
}

/*
 * fence_offer_same_generation
 *
 * Is the fence the one that the transaction was admitted by? The same token
 * raised by another transaction means that an administrator set the fence back
 * to it: another generation lies in between.
 */
bool
fence_offer_same_generation(const Admission *admission, const FenceRow *row)
{
	return row->found && row->token == admission->token &&
		FullTransactionIdEquals(row->raised_by, admission->raised_by);
}

/*
 * fence_offer_refuse
 *
 * Refuse an offer, or log what would be refused. Only who shows it by right
 * learns what the fence is.
 */
void
fence_offer_refuse(const FenceOffer *offer, FenceVerdict verdict,
				   FencePlace place, bool by_right, const FenceState *state)
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
	refusal.withheld = !by_right;
	refusal.observed = offer->observe;
	fence_refuse(&refusal);
}
