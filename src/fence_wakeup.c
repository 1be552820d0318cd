/*
 * fence_wakeup.c
 *		Telling those who wait for a resource that it may be free.
 *
 * Rules: resources share a fixed number of channels, so a wake-up only says
 * "look again". Whoever changed a resource wakes the waiters when its
 * transaction has ended, in whatever way: not before do they find it changed.
 * Without shared memory waiters look at intervals instead.
 */
#include "postgres.h"

#include "access/xact.h"
#include "common/hashfn.h"

#include "fence_shared.h"
#include "fence_wakeup.h"

StaticAssertDecl(FENCE_WAIT_CHANNELS == 64, "one bit for each channel");

static uint64 to_wake = 0;		/* channels of what this transaction changed */

static int
channel_of(FenceString resource)
{
	return hash_bytes((const unsigned char *) resource.data, resource.len) %
		FENCE_WAIT_CHANNELS;
}

/* The transaction has ended. Must not fail. */
static void
wake(XactEvent event, void *arg)
{
	if (to_wake == 0 || (event != XACT_EVENT_COMMIT && event != XACT_EVENT_ABORT &&
						 event != XACT_EVENT_PREPARE))
		return;
	for (int i = 0; i < FENCE_WAIT_CHANNELS; i++)
		if (to_wake & (UINT64CONST(1) << i))
			ConditionVariableBroadcast(&fence_shared()->channels[i]);
	to_wake = 0;
}

/* fence_wakeup_channel: where to wait for a resource; NULL without memory */
ConditionVariable *
fence_wakeup_channel(FenceString resource)
{
	FenceShared *shared = fence_shared();

	return shared == NULL ? NULL : &shared->channels[channel_of(resource)];
}

/* fence_wakeup_at_end: this transaction has changed who may have the resource */
void
fence_wakeup_at_end(FenceString resource)
{
	static bool registered = false;

	if (fence_shared() == NULL)
		return;
	if (!registered)
	{
		RegisterXactCallback(wake, NULL);
		registered = true;
	}
	to_wake |= UINT64CONST(1) << channel_of(resource);
}
