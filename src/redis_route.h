/*
 * redis_route.h
 *		Asking the Redis that is responsible.
 */
#ifndef REDIS_ROUTE_H
#define REDIS_ROUTE_H

#include "redis_conn.h"

typedef enum RedisOutcome
{
	REDIS_ANSWER,				/* see the reply: no error, or NOSCRIPT */
	REDIS_REFUSED,				/* certainly nothing was done */
	REDIS_UNKNOWN				/* it may have been done */
} RedisOutcome;

typedef struct RedisAsk
{
	const RedisServer *server;
	int64		deadline;		/* on redis_clock(), for all of it */

	/* set by redis_route_ask() */
	int64		sent_at;		/* before the request that was answered */
	bool		repeated;		/* an earlier one may have been carried out */
	char		reason[REDIS_MAX_REASON];	/* refused, unknown */
} RedisAsk;

extern void redis_route_begin(RedisAsk *ask, const RedisServer *server);
extern RedisConn *redis_route_connect(RedisAsk *ask);
extern RedisOutcome redis_route_ask(RedisAsk *ask, int argc, const FenceString *argv,
									RespReply *reply);

#endif							/* REDIS_ROUTE_H */
