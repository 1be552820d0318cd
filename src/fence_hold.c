/*
 * fence_hold.c
 *		Remembers that this transaction has locked a fence, so that it is never
 *		kept locked while another system is waited for.
 *
 * Rule: one transaction id is enough. It is the first one that locked and has
 * not been rolled back: what locked later inside it ends with it, and what
 * locked after it was released into the same transaction.
 */
#include "postgres.h"

#include "access/xact.h"

#include "fence_hold.h"

static TransactionId holder = InvalidTransactionId;

/* fence_hold_note: the current (sub)transaction locks or inserts a fence */
void
fence_hold_note(void)
{
	if (!fence_hold_any())
		holder = GetCurrentTransactionId();
}

/* fence_hold_any: does this transaction hold one, rolled back savepoints aside? */
bool
fence_hold_any(void)
{
	return TransactionIdIsValid(holder) &&
		TransactionIdIsCurrentTransactionId(holder);
}
