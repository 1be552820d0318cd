/*
 * fence_rule.c
 *		The decision table of lockfence, in two pure functions.
 *
 * Rule: the verdict depends on the arguments alone. Whoever calls has read the
 * state in the way the place requires (latest committed at a statement, locked
 * at commit); what is read, locked or written is decided elsewhere.
 */
#include "fence_rule.h"

/* A row names its holder and the offer names another. */
static bool
holders_differ(FenceString known, FenceString offered)
{
	return known.data != NULL && offered.data != NULL &&
		!fence_string_equal(known, offered);
}

/*
 * fence_judge_offer
 *
 * Judge a token shown by a statement. FENCE_RAISE means that the token passes
 * only after it has been stored as the resource's fence; only external tokens
 * can get it, since a token that PostgreSQL issued raised the fence when it
 * was issued.
 */
FenceVerdict
fence_judge_offer(const FenceState *state, int64 token, FenceString holder)
{
	switch (state->kind)
	{
		case FENCE_ABSENT:
			if (!state->accepts_external)
				return FENCE_UNISSUED;
			return token > state->floor ? FENCE_RAISE : FENCE_STALE;

		case FENCE_ISSUED:
			if (token < state->token)
				return FENCE_STALE;
			if (token > state->token)
				return FENCE_UNISSUED;
			if (state->released)
				return FENCE_STALE;
			break;

		case FENCE_EXTERNAL:
			if (token < state->token)
				return FENCE_STALE;
			if (token > state->token)
				return FENCE_RAISE;
			break;
	}

	return holders_differ(state->holder, holder) ? FENCE_CONFLICT : FENCE_ACCEPT;
}

/*
 * fence_judge_commit
 *
 * Judge an admitted token again at COMMIT or PREPARE. Nothing is stored or
 * raised there: only the exact token passes. A fence below the admitted token
 * means that an administrator took it back.
 */
FenceVerdict
fence_judge_commit(const FenceState *state, int64 token)
{
	if (state->kind == FENCE_ABSENT || state->token > token)
		return FENCE_STALE;
	if (state->token < token)
		return FENCE_UNISSUED;
	return state->released ? FENCE_STALE : FENCE_ACCEPT;
}
