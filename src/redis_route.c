/*
 * redis_route.c
 *		Finds the Redis that is responsible and asks it: the one that the
 *		options name, the master that Sentinel knows, or the node that a
 *		cluster names.
 *
 * Rules: a request is repeated only if the connection it went out on had been
 * used before, was found closed before the answer, and only once; every
 * request gives the same result when it is repeated for the same holder. An
 * address that another server names is only ever followed if the options say
 * so, and is then subject to the same rules of TLS and credentials as the
 * options' own.
 */
#include "postgres.h"

#include "redis_link.h"
#include "redis_route.h"

#define MAX_HOPS	3

/* One request on its way: where it goes next, and what has been tried. */
typedef struct Route
{
	bool		named;			/* by a cluster: host and port below */
	bool		asking;			/* by ASK: for this request only */
	char		host[REDIS_MAX_HOST + 1];
	int			port;

	int			hops;
	bool		resolved_again;
	bool		reused;			/* the connection had been used before */
} Route;

/* redis_route_begin: the time for all that is asked begins */
void
redis_route_begin(RedisAsk *ask, const RedisServer *server)
{
	memset(ask, 0, sizeof(RedisAsk));
	ask->server = server;
	ask->deadline = redis_clock() + server->options.timeout * INT64CONST(1000);
}

/* Ask one Sentinel where the master is. False with a reason. */
static bool
ask_sentinel(RedisAsk *ask, const RedisEndpoint *sentinel, char *host, int *port)
{
	FenceString words[3];
	RespReply	reply;
	RedisConn  *conn;
	RedisEnd	end;
	FenceString name;
	char		node[REDIS_MAX_HOST + 32];

	snprintf(node, sizeof(node), "sentinel %s:%d", sentinel->host, sentinel->port);
	conn = redis_conn_open(ask->server, node, sentinel, REDIS_GREET_SENTINEL,
						   ask->deadline, ask->reason, REDIS_MAX_REASON);
	if (conn == NULL)
		return false;
	words[0] = redis_word("SENTINEL");
	words[1] = redis_word("get-master-addr-by-name");
	words[2] = redis_word(ask->server->options.sentinel_master);
	end = redis_conn_call(conn, 3, words,
						  Min(ask->deadline, redis_clock() +
							  ask->server->options.connect_timeout * INT64CONST(1000)),
						  &reply);
	if (end != REDIS_ANSWERED)
	{
		strlcpy(ask->reason, "a Sentinel did not answer", REDIS_MAX_REASON);
		return false;
	}
	redis_conn_done(conn);
	if (reply.value.type != RESP_ARRAY || reply.count != 2 ||
		reply.items[0].type != RESP_STRING || reply.items[1].type != RESP_STRING)
	{
		strlcpy(ask->reason, "a Sentinel does not know the master", REDIS_MAX_REASON);
		return false;
	}

	/* Host and port come apart; together they are checked as from a cluster. */
	name.data = psprintf("%.*s:%.*s", reply.items[0].text.len, reply.items[0].text.data,
						 reply.items[1].text.len, reply.items[1].text.data);
	name.len = strlen(name.data);
	if (!redis_option_split(name, 0, host, port) || host[0] == '\0')
	{
		strlcpy(ask->reason, "a Sentinel named no valid address", REDIS_MAX_REASON);
		return false;
	}
	return true;
}

/* Is the other side really a master? An old one may not know yet. */
static bool
is_master(RedisAsk *ask, RedisConn *conn)
{
	FenceString word = redis_word("ROLE");
	RespReply	reply;
	const char *meaning = NULL;

	if (redis_conn_call(conn, 1, &word, ask->deadline, &reply) != REDIS_ANSWERED)
	{
		strlcpy(ask->reason, "Redis did not tell its role", REDIS_MAX_REASON);
		return false;
	}
	if (reply.value.type == RESP_ERROR &&
		redis_error_class(reply.value.text, &meaning) == REDIS_SAYS_FAULT)
	{
		redis_conn_close(conn);
		redis_error_raise(ask->server->name, reply.value.text);
	}
	if (reply.value.type == RESP_ARRAY && reply.count > 0 &&
		fence_string_equal(reply.items[0].text, redis_word("master")))
		return true;
	redis_conn_close(conn);
	strlcpy(ask->reason, meaning ? meaning : "Sentinel named a server that is no master",
			REDIS_MAX_REASON);
	return false;
}

/* A new connection to the master, by the first Sentinel that leads to one. */
static RedisConn *
connect_by_sentinel(RedisAsk *ask)
{
	RedisEndpoint sentinel = {0};
	RedisEndpoint master = {0};
	char		sentinel_host[REDIS_MAX_HOST + 1];
	char		master_host[REDIS_MAX_HOST + 1];
	int			at = 0;

	sentinel.host = sentinel_host;
	master.host = master_host;
	while (redis_option_next_sentinel(&ask->server->options, &at, sentinel_host,
									  &sentinel.port))
	{
		RedisConn  *conn;

		if (!ask_sentinel(ask, &sentinel, master_host, &master.port))
			continue;
		conn = redis_conn_open(ask->server, "", &master, REDIS_GREET_DATA,
							   ask->deadline, ask->reason, REDIS_MAX_REASON);
		if (conn != NULL && is_master(ask, conn))
			return conn;
	}
	return NULL;
}

/* The connection for the next request, or NULL with a reason. */
static RedisConn *
get_connection(RedisAsk *ask, Route *route)
{
	RedisEndpoint endpoint;
	char		node[REDIS_MAX_HOST + 16] = "";
	RedisConn  *conn;

	redis_option_endpoint(&ask->server->options, &endpoint);
	if (route->named)
	{
		if (route->host[0] != '\0')
		{
			endpoint.host = route->host;
			endpoint.hostaddr = NULL;
		}
		endpoint.path = NULL;
		endpoint.port = route->port;
		snprintf(node, sizeof(node), "%s:%d", route->host, route->port);
	}

	conn = redis_conn_find(ask->server, node);
	route->reused = conn != NULL;
	if (conn != NULL)
		return conn;
	if (ask->server->options.sentinels != NULL)
		return connect_by_sentinel(ask);
	return redis_conn_open(ask->server, node, &endpoint, REDIS_GREET_DATA,
						   ask->deadline, ask->reason, REDIS_MAX_REASON);
}

/* redis_route_connect: a connection as the options lead to it, or NULL */
RedisConn *
redis_route_connect(RedisAsk *ask)
{
	Route		route = {0};

	return get_connection(ask, &route);
}

/* "MOVED 3999 127.0.0.1:6381" or "ASK ...": go there, if that is allowed. */
static bool
follow(RedisAsk *ask, Route *route, FenceString error, RedisErrorClass class)
{
	FenceString target = error;
	char		host[REDIS_MAX_HOST + 1];

	if (!ask->server->options.cluster)
		redis_error_raise(ask->server->name, error);
	if (++route->hops > MAX_HOPS)
	{
		strlcpy(ask->reason, "the Redis cluster redirects in circles", REDIS_MAX_REASON);
		return false;
	}
	for (int words = 0; words < 2; words++)
	{
		while (target.len > 0 && *target.data != ' ')
			target.data++, target.len--;
		while (target.len > 0 && *target.data == ' ')
			target.data++, target.len--;
	}
	if (target.len == 0 || !redis_option_split(target, 0, host, &route->port))
		redis_error_raise(ask->server->name, redis_word("ERR invalid redirection"));
	/* An empty host means the one that named the port. */
	if (host[0] != '\0')
		strlcpy(route->host, host, sizeof(route->host));
	route->named = true;
	route->asking = class == REDIS_SAYS_ASK;
	return true;
}

/* After ASK: the node that takes the key over answers for it only if told so. */
static RedisEnd
say_asking(RedisAsk *ask, RedisConn *conn)
{
	FenceString word = redis_word("ASKING");
	RespReply	reply;

	return redis_conn_call(conn, 1, &word, ask->deadline, &reply);
}

/* What an error answer leads to: true to ask again, as *route says. */
static bool
handle_error(RedisAsk *ask, Route *route, RedisConn *conn, FenceString error,
			 RedisOutcome *outcome)
{
	const char *meaning;
	RedisErrorClass class = redis_error_class(error, &meaning);

	switch (class)
	{
		case REDIS_SAYS_NOSCRIPT:
			*outcome = REDIS_ANSWER;
			return false;
		case REDIS_SAYS_MOVED:
		case REDIS_SAYS_ASK:
			redis_conn_done(conn);
			return follow(ask, route, error, class);
		case REDIS_SAYS_READONLY:
			redis_conn_close(conn);
			strlcpy(ask->reason, meaning, REDIS_MAX_REASON);
			if (ask->server->options.sentinels == NULL || route->resolved_again)
				return false;
			route->resolved_again = true;
			return true;
		case REDIS_SAYS_LATER:
			strlcpy(ask->reason, meaning, REDIS_MAX_REASON);
			return false;
		case REDIS_SAYS_FAULT:
			break;
	}
	redis_conn_close(conn);
	redis_error_raise(ask->server->name, error);
	return false;
}

/*
 * redis_route_ask
 *
 * Ask, wherever that leads. What Redis says is a fault of the configuration or
 * of rights is raised; see redis_error_raise().
 */
RedisOutcome
redis_route_ask(RedisAsk *ask, int argc, const FenceString *argv, RespReply *reply)
{
	Route		route = {0};

	for (;;)
	{
		RedisOutcome outcome = ask->repeated ? REDIS_UNKNOWN : REDIS_REFUSED;
		RedisConn  *conn = get_connection(ask, &route);
		RedisEnd	end = REDIS_ANSWERED;

		if (conn == NULL)
			return outcome;
		if (route.asking)
			end = say_asking(ask, conn);
		if (end != REDIS_ANSWERED)
		{
			strlcpy(ask->reason, "a node of the Redis cluster did not answer",
					REDIS_MAX_REASON);
			return outcome;
		}
		route.asking = false;

		ask->sent_at = redis_clock();
		end = redis_conn_call(conn, argc, argv, ask->deadline, reply);
		switch (end)
		{
			case REDIS_ANSWERED:
				if (reply->value.type != RESP_ERROR)
				{
					redis_conn_done(conn);
					return REDIS_ANSWER;
				}
				if (handle_error(ask, &route, conn, reply->value.text, &outcome))
					continue;
				redis_conn_done(conn);
				return outcome;

			case REDIS_LATE:
				strlcpy(ask->reason, "Redis did not answer in time", REDIS_MAX_REASON);
				return REDIS_UNKNOWN;

			case REDIS_UNSENT:
			case REDIS_CUT:
				strlcpy(ask->reason, "Redis closed the connection before it answered",
						REDIS_MAX_REASON);
				if (!route.reused)
					return end == REDIS_UNSENT ? outcome : REDIS_UNKNOWN;
				/* Repeats once at most, since this connection is closed. */
				ask->repeated |= end == REDIS_CUT;
				break;
		}
	}
}
