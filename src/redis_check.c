/*
 * redis_check.c
 *		SQL entry: fence_redis_check, what an operator should know of a Redis
 *		server that grants leases.
 *
 * Rules: only INFO is asked, since CONFIG is often not allowed. What Redis
 * does not tell is no finding. No key is read or written.
 */
#include "postgres.h"

#include "fmgr.h"
#include "funcapi.h"
#include "utils/builtins.h"
#include "utils/tuplestore.h"

#include "redis_link.h"
#include "redis_route.h"

PG_FUNCTION_INFO_V1(fence_redis_check);

typedef struct Findings
{
	ReturnSetInfo *to;
	RedisAsk	ask;
	RedisConn  *conn;			/* NULL once it is lost */
	RespReply	info;
} Findings;

static void
add(Findings *findings, const char *severity, const char *problem, const char *remedy)
{
	Datum		values[3];
	bool		nulls[3] = {false};

	values[0] = CStringGetTextDatum(severity);
	values[1] = CStringGetTextDatum(problem);
	values[2] = CStringGetTextDatum(remedy);
	tuplestore_putvalues(findings->to->setResult, findings->to->setDesc, values, nulls);
}

/* Read one section. False if Redis does not tell it. */
static bool
read_section(Findings *findings, const char *section)
{
	FenceString words[2];

	if (findings->conn == NULL)
		return false;
	words[0] = redis_word("INFO");
	words[1] = redis_word(section);
	if (redis_conn_call(findings->conn, 2, words, findings->ask.deadline,
						&findings->info) != REDIS_ANSWERED)
	{
		findings->conn = NULL;
		add(findings, "error", "Redis does not answer INFO",
			"See the log of Redis.");
		return false;
	}
	return findings->info.value.type == RESP_STRING;
}

/* A field of the section read last, safe to be shown; "" if it is not there. */
static const char *
field(const Findings *findings, const char *name)
{
	FenceString text = findings->info.value.text;
	int			len = strlen(name);
	int			start = 0;

	while (start < text.len)
	{
		int			end = start;

		while (end < text.len && text.data[end] != '\n')
			end++;
		if (end - start > len && memcmp(text.data + start, name, len) == 0 &&
			text.data[start + len] == ':')
		{
			char	   *value = palloc(64);
			FenceString from = {text.data + start + len + 1, end - start - len - 1};

			redis_text_safe(value, 64, from);
			return value;
		}
		start = end + 1;
	}
	return "";
}

static void
check_server(Findings *findings)
{
	const RedisOptions *options = &findings->ask.server->options;
	const char *version;

	if (!read_section(findings, "server"))
	{
		if (findings->conn != NULL)
			add(findings, "notice", "Redis does not tell anything about itself",
				"Allow the command INFO to the user of the mapping, at least for this check.");
		return;
	}
	version = field(findings, "redis_version");
	if (version[0] != '\0' && atoi(version) < 6)
		add(findings, "warning", psprintf("Redis has version %s", version),
			"Use version 6 or later, or Valkey.");
	/* Valkey has another name for it. */
	if ((strcmp(field(findings, "redis_mode"), "cluster") == 0 ||
		 strcmp(field(findings, "server_mode"), "cluster") == 0) && !options->cluster)
		add(findings, "error", "Redis is a node of a cluster, and redirections are not followed",
			"Set option \"cluster\" of the server to \"on\".");
}

static void
check_replication(Findings *findings)
{
	const RedisOptions *options = &findings->ask.server->options;
	int			replicas;

	if (!read_section(findings, "replication"))
		return;
	if (strcmp(field(findings, "role"), "slave") == 0)
		add(findings, "error", "Redis is a replica, which grants nothing",
			"Name the master in the options of the server, or use option \"sentinels\".");
	replicas = atoi(field(findings, "connected_slaves"));
	if (replicas == 0 && options->sentinels != NULL)
		add(findings, "warning", "the master has no replica that could take over",
			"Add a replica.");
	if (replicas > 0 && options->sentinels == NULL && !options->cluster)
		add(findings, "notice", "Redis has replicas, but a failover would not be followed",
			"Use options \"sentinels\" and \"sentinel_master\" of the server.");
}

static void
check_memory(Findings *findings)
{
	const char *policy;

	if (!read_section(findings, "memory"))
		return;
	policy = field(findings, "maxmemory_policy");
	if (policy[0] != '\0' && strcmp(policy, "noeviction") != 0)
		add(findings, "warning",
			psprintf("Redis may evict leases: maxmemory-policy is %s", policy),
			"Set maxmemory-policy to noeviction, or use another Redis for leases.");
}

static void
check_persistence(Findings *findings)
{
	if (!read_section(findings, "persistence"))
		return;
	if (strcmp(field(findings, "aof_enabled"), "0") == 0)
		add(findings, "notice", "Redis may forget leases when it restarts: appendonly is off",
			"Set appendonly to yes, or accept that two workers may work at once after a restart; fences hold all the same.");
	if (strcmp(field(findings, "rdb_last_bgsave_status"), "err") == 0)
		add(findings, "warning", "the last background save of Redis has failed",
			"See the log of Redis; it may stop to accept writes.");
}

static void
check_tls(Findings *findings)
{
	const RedisOptions *options = &findings->ask.server->options;
	RedisEndpoint endpoint;

	redis_option_endpoint(options, &endpoint);
	if (options->sslmode == REDIS_SSL_DISABLE &&
		(options->sentinels != NULL || !redis_option_local(&endpoint)))
		add(findings, "warning", "holders and credentials are sent in clear",
			"Set option \"sslmode\" of the server to \"verify-full\".");
	if (options->sslmode == REDIS_SSL_VERIFY_CA)
		add(findings, "warning", "the name in the certificate of Redis is not compared",
			"Set option \"sslmode\" of the server to \"verify-full\".");
}

/*
 * fence_redis_check(server name)
 *
 * One row for each finding, none if all is well. Raises what
 * redis_server_get() raises, and what redis_error_raise() raises for
 * credentials.
 */
Datum
fence_redis_check(PG_FUNCTION_ARGS)
{
	Findings	findings;

	if (PG_ARGISNULL(0))
		ereport(ERROR,
				(errcode(ERRCODE_NULL_VALUE_NOT_ALLOWED),
				 errmsg("server must not be null")));
	redis_route_begin(&findings.ask, redis_server_get(NameStr(*PG_GETARG_NAME(0))));
	InitMaterializedSRF(fcinfo, 0);
	findings.to = (ReturnSetInfo *) fcinfo->resultinfo;

	check_tls(&findings);
	findings.conn = redis_route_connect(&findings.ask);
	if (findings.conn == NULL)
		add(&findings, "error",
			psprintf("Redis cannot be reached: %s", findings.ask.reason),
			"Check the options of the server, and whether Redis runs.");
	check_server(&findings);
	check_replication(&findings);
	check_memory(&findings);
	check_persistence(&findings);
	if (findings.conn != NULL)
		redis_conn_done(findings.conn);
	return (Datum) 0;
}
