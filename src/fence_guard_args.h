/*
 * fence_guard_args.h
 *		The arguments of a guard trigger.
 */
#ifndef FENCE_GUARD_ARGS_H
#define FENCE_GUARD_ARGS_H

#include "lib/stringinfo.h"

#include "fence_key.h"

#define FENCE_PRESENT_COLUMN		"column"
#define FENCE_PRESENT_TRANSACTION	"transaction"
#define FENCE_MODE_ENFORCE			"enforce"
#define FENCE_MODE_OBSERVE			"observe"
#define FENCE_FIRING_ORIGIN			"origin"
#define FENCE_FIRING_ALWAYS			"always"

/* As written in the trigger, defaults filled in. NULL means not given. */
typedef struct FenceGuardArgs
{
	const char *resource;		/* the template */
	const char *token_column;	/* never empty */
	const char *present;
	const char *mode;
	const char *firing;			/* as declared; the trigger may differ */
	const char *types;			/* types of the template's columns */
	const char *unknown;		/* first option that is not known */
} FenceGuardArgs;

extern void fence_guard_args_read(int nargs, char **argv, FenceGuardArgs *args);
extern void fence_guard_args_default(FenceGuardArgs *args);
extern void fence_guard_args_check(const FenceGuardArgs *args);
extern void fence_guard_args_write(StringInfo sql, const FenceGuardArgs *args,
								   const FenceKey *key);
extern bool fence_guard_observes(const FenceGuardArgs *args);
extern bool fence_guard_by_transaction(const FenceGuardArgs *args);
extern bool fence_guard_fires_always(const FenceGuardArgs *args);

#endif							/* FENCE_GUARD_ARGS_H */
