/*
 * late_admission.c
 *		A module that runs a statement in its callback before commit.
 *
 * late.statement is run once for each transaction block; empty, nothing is.
 */
#include "postgres.h"

#include "access/xact.h"
#include "executor/spi.h"
#include "fmgr.h"
#include "utils/guc.h"
#include "utils/snapmgr.h"

PG_MODULE_MAGIC;

extern void _PG_init(void);

static char *statement = NULL;
static bool running = false;

static void
run_statement(XactEvent event, void *arg)
{
	if (event != XACT_EVENT_PRE_COMMIT || running || !IsTransactionBlock() ||
		statement == NULL || statement[0] == '\0')
		return;
	running = true;
	PG_TRY();
	{
		PushActiveSnapshot(GetTransactionSnapshot());
		SPI_connect();
		if (SPI_execute(statement, false, 0) < 0)
			elog(ERROR, "could not run \"%s\"", statement);
		SPI_finish();
		PopActiveSnapshot();
	}
	PG_FINALLY();
	{
		running = false;
	}
	PG_END_TRY();
}

void
_PG_init(void)
{
	DefineCustomStringVariable("late.statement", "Is run before commit.", NULL,
							   &statement, "", PGC_USERSET, 0, NULL, NULL, NULL);
	RegisterXactCallback(run_statement, NULL);
}
