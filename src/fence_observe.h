/*
 * fence_observe.h
 *		How much of what is only observed goes to the log.
 */
#ifndef FENCE_OBSERVE_H
#define FENCE_OBSERVE_H

#include "lockfence.h"

/* Put before messages about what is only observed. */
#define FENCE_OBSERVED_PREFIX	"observed: "

extern void fence_observe_init(void);
extern int	fence_observe_level(void);

#endif							/* FENCE_OBSERVE_H */
