#include "client/name.h"

#include <sodium.h>

void name_put(char out[CLIENT_NAME_MAX], struct view v)
{
	static const char prefix[] = "sha256/";
	const size_t prefix_n = sizeof(prefix) - 1;
	unsigned char hash[crypto_hash_sha256_BYTES];

	if (v.n < CLIENT_NAME_MAX && !view_starts(v, view_str(prefix)) &&
		!(v.n && memchr(v.p, '\0', v.n))) {
		if (v.n)
			memcpy(out, v.p, v.n);
		out[v.n] = '\0';
		return;
	}
	crypto_hash_sha256(hash, (const unsigned char *)v.p, v.n);
	memcpy(out, prefix, prefix_n);
	sodium_bin2hex(out + prefix_n, CLIENT_NAME_MAX - prefix_n, hash, sizeof(hash));
}
