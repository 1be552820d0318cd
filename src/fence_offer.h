/*
 * fence_offer.h
 *		A token that is shown for a resource, and the fence it is held against.
 */
#ifndef FENCE_OFFER_H
#define FENCE_OFFER_H

#include "fence_admission.h"
#include "fence_report.h"
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

extern void fence_offer_state(FenceString resource, const FenceRow *row,
							  FenceState *state);
extern bool fence_offer_same_generation(const Admission *admission,
										const FenceRow *row);
extern void fence_offer_refuse(const FenceOffer *offer, FenceVerdict verdict,
							   FencePlace place, bool by_right,
							   const FenceState *state);

#endif							/* FENCE_OFFER_H */
