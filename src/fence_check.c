/*
 * fence_check.c
 *		SQL entry: fence_check, the explicit admission.
 *
 * Rule: nothing is decided here.
 */
#include "postgres.h"

#include "fmgr.h"

#include "fence_commit.h"
#include "fence_param.h"
#include "fence_session.h"

PG_FUNCTION_INFO_V1(fence_check);

/*
 * fence_check(resource text, token bigint, holder text) returns boolean
 *
 * True, or the error of the refusal; see fence_admit(). Called once more at
 * the end, it has the commit check run before whatever the transaction used.
 */
Datum
fence_check(PG_FUNCTION_ARGS)
{
	FenceOffer	offer = {0};

	offer.resource = fence_param_resource(fcinfo, 0);
	offer.token = fence_param_token(fcinfo, 1);
	offer.holder = fence_param_optional_holder(fcinfo, 2);
	(void) fence_admit(&offer);
	fence_commit_to_front();
	PG_RETURN_BOOL(true);
}
