/*
 * fence_once.c
 *		SQL entry: fence_once, a publication that is accepted once.
 *
 * Rule: nothing is decided here. The token is judged before the operation is
 * looked at, so that a stale caller learns that it is stale.
 */
#include "postgres.h"

#include "access/xact.h"
#include "fmgr.h"
#include "miscadmin.h"

#include "fence_entry.h"
#include "fence_operation.h"
#include "fence_param.h"
#include "fence_session.h"
#include "fence_stats.h"
#include "fence_table.h"

PG_FUNCTION_INFO_V1(fence_once);

/* The holder of the fence, as far as known, in the row given. */
static FenceString
known_holder(FenceString resource, FenceRow *row)
{
	FenceString nobody = {NULL, 0};
	FenceTable *table = fence_table_open(AccessShareLock);
	bool		found = fence_table_read(table, resource, row);

	fence_table_close(table);
	return found ? row->holder : nobody;
}

/*
 * fence_once(resource text, token bigint, operation text, holder text)
 *		returns boolean
 *
 * True the first time an operation of the resource is accepted, false if it
 * was accepted before in any generation. Raises what fence_check raises, and
 * 25006 where nothing can be written.
 */
Datum
fence_once(PG_FUNCTION_ARGS)
{
	FenceOffer	offer = {0};
	FenceString operation;
	FenceRow	row;
	bool		first;

	offer.resource = fence_param_resource(fcinfo, 0);
	offer.token = fence_param_token(fcinfo, 1);
	operation = fence_param_operation(fcinfo, 2);
	offer.holder = fence_param_optional_holder(fcinfo, 3);

	fence_entry_writes("fence_once()");

	(void) fence_admit(&offer);
	if (offer.holder.data == NULL)
		offer.holder = known_holder(offer.resource, &row);
	first = fence_operation_accept(offer.resource, operation, offer.token,
								   offer.holder);
	fence_count(first ? FENCE_COUNT_ONCE_ACCEPTED : FENCE_COUNT_ONCE_REPEATED);
	PG_RETURN_BOOL(first);
}
