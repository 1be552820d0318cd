/*
 * fence_session.h
 *		The admissions of the current transaction and the check at its commit.
 */
#ifndef FENCE_SESSION_H
#define FENCE_SESSION_H

#include "fence_admission.h"
#include "fence_row.h"

typedef struct FenceOffer
{
	FenceString resource;
	int64		token;			/* > 0 */
	FenceString holder;			/* data is NULL when not given */
	Oid			target;			/* table the statement writes, or InvalidOid */
	Oid			guard;			/* its trigger function, or InvalidOid */
	bool		observe;		/* log a violation instead of raising it */
} FenceOffer;

extern void fence_session_init(void);
extern void fence_session_to_front(void);

extern bool fence_admit(const FenceOffer *offer);
extern bool fence_admitted(FenceString resource, bool observe, int64 *token);

extern void fence_session_before_raise(FenceString resource, const FenceRow *row);
extern void fence_session_raised(FenceString resource, const FenceRow *row);

#endif							/* FENCE_SESSION_H */
