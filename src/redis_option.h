/*
 * redis_option.h
 *		Options of a Redis server and of a user mapping for it.
 */
#ifndef REDIS_OPTION_H
#define REDIS_OPTION_H

#include "nodes/pg_list.h"

#include "lockfence.h"

typedef enum RedisSslMode
{
	REDIS_SSL_DEFAULT,			/* by address: see redis_option_ssl() */
	REDIS_SSL_DISABLE,
	REDIS_SSL_VERIFY_CA,
	REDIS_SSL_VERIFY_FULL
} RedisSslMode;

/* Texts are NULL where nothing was given. */
typedef struct RedisOptions
{
	/* of the server */
	char	   *host;
	char	   *hostaddr;
	char	   *unix_socket_path;
	int			port;
	int			database;
	char	   *key_prefix;
	RedisSslMode sslmode;
	char	   *sslrootcert;
	char	   *ssl_server_name;
	int			connect_timeout;	/* milliseconds, as "timeout" */
	int			timeout;		/* all that one call waits for Redis */
	bool		keep_connections;
	bool		cluster;		/* follow MOVED and ASK */
	char	   *sentinels;
	char	   *sentinel_master;

	/* of the user mapping */
	char	   *user;
	char	   *password;
	bool		password_required;
	char	   *sslcert;
	char	   *sslkey;
} RedisOptions;

/* Where to connect: a path, or an address, or a name to be looked up. */
typedef struct RedisEndpoint
{
	const char *path;
	const char *host;			/* name, or an address if hostaddr is NULL */
	const char *hostaddr;
	int			port;
} RedisEndpoint;

#define REDIS_MAX_HOST		255 /* bytes */

extern void redis_option_defaults(RedisOptions *options);
extern void redis_option_read(RedisOptions *options, List *given);
extern void redis_option_endpoint(const RedisOptions *options,
								  RedisEndpoint *endpoint);
extern bool redis_option_local(const RedisEndpoint *endpoint);
extern RedisSslMode redis_option_ssl(const RedisOptions *options,
									 const RedisEndpoint *endpoint);
extern bool redis_option_split(FenceString text, int default_port,
							   char *host, int *port);
extern bool redis_option_next_sentinel(const RedisOptions *options, int *at,
									   char *host, int *port);

#endif							/* REDIS_OPTION_H */
