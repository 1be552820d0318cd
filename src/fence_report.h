/*
 * fence_report.h
 *		Every refusal of a token, worded in one place.
 */
#ifndef FENCE_REPORT_H
#define FENCE_REPORT_H

#include "fence_rule.h"

typedef enum FencePlace
{
	FENCE_AT_STATEMENT,
	FENCE_AT_COMMIT
} FencePlace;

typedef struct FenceRefusal
{
	FenceVerdict verdict;		/* neither FENCE_ACCEPT nor FENCE_RAISE */
	FencePlace	place;
	FenceString resource;
	int64		token;			/* as offered; 0 when none was shown */
	FenceString holder;			/* as offered */
	int64		fence;			/* 0 when there is none */
	FenceString fence_holder;
	bool		fence_released;
	bool		withheld;		/* the fence is not for the client to see */
	Oid			target;			/* the table, or InvalidOid */
	bool		observed;		/* log it and go on */
} FenceRefusal;

extern void fence_observed(Oid target, int sqlstate, int64 token);
extern void fence_refuse(const FenceRefusal *refusal);
extern void fence_refuse_truncate(Oid target, bool observed);
extern void fence_refuse_row_token(const FenceRefusal *refusal, int64 admitted);
extern void fence_refuse_snapshot(FenceString resource, int64 token);

#endif							/* FENCE_REPORT_H */
