/*
 * redis_conn.h
 *		Connections to Redis: one request, one answer.
 */
#ifndef REDIS_CONN_H
#define REDIS_CONN_H

#include "redis_reply.h"
#include "redis_server.h"

typedef struct RedisConn RedisConn;

/* How one request ended. */
typedef enum RedisEnd
{
	REDIS_ANSWERED,
	REDIS_UNSENT,				/* closed before a byte had left */
	REDIS_CUT,					/* closed before the answer was complete */
	REDIS_LATE					/* no complete answer in time */
} RedisEnd;

/* What is said to a new connection before it is used. */
typedef enum RedisGreeting
{
	REDIS_GREET_DATA,			/* credentials, database */
	REDIS_GREET_SENTINEL		/* nothing: it is no store of data */
} RedisGreeting;

extern RedisConn *redis_conn_find(const RedisServer *server, const char *node);
extern RedisConn *redis_conn_open(const RedisServer *server, const char *node,
								  const RedisEndpoint *endpoint,
								  RedisGreeting greeting, int64 deadline,
								  char *reason, int size);
extern RedisEnd redis_conn_call(RedisConn *conn, int argc, const FenceString *argv,
								int64 deadline, RespReply *reply);
extern void redis_conn_close(RedisConn *conn);
extern void redis_conn_done(RedisConn *conn);

extern FenceString redis_word(const char *word);

#endif							/* REDIS_CONN_H */
