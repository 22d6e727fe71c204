/*
 * authorizer_200.c - the least an authorizer on libfcgi can do: yes, at once. What
 * bench_authorizer.sh holds weir's decisions against.
 */
#include <fcgiapp.h>

int main(void)
{
	FCGX_Request request;

	FCGX_Init();
	FCGX_InitRequest(&request, 0, 0);
	while (FCGX_Accept_r(&request) == 0) {
		FCGX_PutS("Status: 200 OK\r\n\r\n", request.out);
		FCGX_Finish_r(&request);
	}
	return 0;
}
