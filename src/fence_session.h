/*
 * fence_session.h
 *		The admissions of the current transaction.
 */
#ifndef FENCE_SESSION_H
#define FENCE_SESSION_H

#include "fence_offer.h"

extern bool fence_admit(const FenceOffer *offer);
extern bool fence_admitted(FenceString resource, bool observe, int64 *token);

extern void fence_session_before_raise(FenceString resource, const FenceRow *row);
extern void fence_session_raised(FenceString resource, const FenceRow *row);

#endif							/* FENCE_SESSION_H */
