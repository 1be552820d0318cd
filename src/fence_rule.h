/*
 * fence_rule.h
 *		The decision whether a token passes, as a pure function.
 *
 * Rule: no I/O, no allocation, no error. Every caller judges here.
 */
#ifndef FENCE_RULE_H
#define FENCE_RULE_H

#include "lockfence.h"

typedef enum FenceKind
{
	FENCE_ABSENT,				/* no fence is stored for the resource */
	FENCE_ISSUED,				/* PostgreSQL mints the resource's tokens */
	FENCE_EXTERNAL				/* tokens are minted elsewhere and shown here */
} FenceKind;

typedef struct FenceState
{
	FenceKind	kind;

	/* absent */
	bool		accepts_external;	/* may start with an external token */
	int64		floor;			/* highest token forgotten by pruning, or 0 */

	/* issued, external */
	int64		token;
	FenceString holder;			/* data is NULL when unknown */
	bool		released;		/* its generation ended, and not by us */
} FenceState;

typedef enum FenceVerdict
{
	FENCE_ACCEPT,				/* passes, nothing to write */
	FENCE_RAISE,				/* passes once the fence is raised to it */
	FENCE_STALE,				/* LF001 */
	FENCE_MISSING,				/* LF002; never the result of a judgement */
	FENCE_UNISSUED,				/* LF003 */
	FENCE_CONFLICT				/* LF004 */
} FenceVerdict;

extern FenceVerdict fence_judge_offer(const FenceState *state, int64 token,
									  FenceString holder);
extern FenceVerdict fence_judge_commit(const FenceState *state, int64 token);

#endif							/* FENCE_RULE_H */
