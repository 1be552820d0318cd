/*
 * fence_blocker.c
 *		Finds out about the transaction behind a row lock.
 *
 * Rule: what is said here may be out of date at once; it serves waiting and
 * messages, never a decision about a token.
 */
#include "postgres.h"

#include "access/htup_details.h"
#include "access/multixact.h"
#include "access/subtrans.h"
#include "access/xact.h"
#include "storage/procarray.h"

#include "fence_blocker.h"

/* fence_blocker_set: a transaction, if it still runs */
void
fence_blocker_set(FenceBlocker *blocker, TransactionId xid)
{
	memset(blocker, 0, sizeof(FenceBlocker));
	if (!TransactionIdIsValid(xid) || !TransactionIdIsInProgress(xid))
		return;
	blocker->xid = SubTransGetTopmostTransaction(xid);
	blocker->prepared = BackendXidGetPid(blocker->xid) == 0;
}

/* The running member of a multixact that matters most to a waiter. */
static TransactionId
running_member(MultiXactId multi, bool *shares)
{
	TransactionId found = InvalidTransactionId;
	MultiXactMember *members;
	int			nmembers = GetMultiXactIdMembers(multi, &members, false, false);

	for (int i = 0; i < nmembers; i++)
	{
		bool		key_share = members[i].status == MultiXactStatusForKeyShare;

		if (TransactionIdIsCurrentTransactionId(members[i].xid) ||
			!TransactionIdIsInProgress(members[i].xid))
			continue;
		if (!TransactionIdIsValid(found) || !key_share)
		{
			found = members[i].xid;
			*shares = key_share;
		}
	}
	if (nmembers > 0)
		pfree(members);
	return found;
}

/*
 * fence_blocker_set_locker
 *
 * From the xmax of a row. A KEY SHARE lock is that of a commit check, which
 * ends with its commit, unless the transaction was prepared.
 */
void
fence_blocker_set_locker(FenceBlocker *blocker, TransactionId xmax,
						 uint16 infomask)
{
	bool		shares = false;

	if (infomask & HEAP_XMAX_IS_MULTI)
		fence_blocker_set(blocker, running_member(xmax, &shares));
	else if (infomask & HEAP_XMAX_INVALID)
		fence_blocker_set(blocker, InvalidTransactionId);
	else
	{
		fence_blocker_set(blocker, xmax);
		shares = HEAP_XMAX_IS_KEYSHR_LOCKED(infomask) &&
			HEAP_XMAX_IS_LOCKED_ONLY(infomask);
	}
	blocker->committing = shares && !blocker->prepared;
}
