/*
 * fence_fit.h
 *		Whether a guard fits its table.
 */
#ifndef FENCE_FIT_H
#define FENCE_FIT_H

#include "utils/relcache.h"

#include "fence_guard_args.h"

/* The first thing that does not fit. Strings live in the current context. */
typedef struct FenceMisfit
{
	int			sqlstate;		/* for whoever is protecting the table now */
	char	   *message;
	char	   *hint;			/* for the same, or NULL */
} FenceMisfit;

extern bool fence_fit_columns(Relation rel, const FenceGuardArgs *args,
							  FenceKey *key, AttrNumber *token_attnum,
							  FenceMisfit *misfit);
extern bool fence_fit_guard(Relation rel, Oid trigger_oid, FenceMisfit *misfit);
extern bool fence_fit_order(Relation rel, const char *trigger_name,
							FenceMisfit *misfit);

#endif							/* FENCE_FIT_H */
