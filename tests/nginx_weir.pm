# nginx_weir.pm - starts a weir for one of nginx's own tests, which ends it with its daemons.
# nginx_between.pm and nginx_cgi_between.pm load it.
package nginx_weir;

use strict;
use warnings;

use IO::Socket::UNIX;

my $count = 0;

# The rest of [server], and what follows it; the address where it serves.
sub start {
	my ($t, $options) = @_;
	my $weir = $t->testdir() . '/weir' . $count++;

	open my $ini, '>', "$weir.ini" or die "$weir.ini: $!";
	print $ini "[server]\nlisten = unix:$weir.sock\ncontrol =\n$options";
	close $ini;
	my $pid = fork() // die "fork: $!";
	if ($pid == 0) {
		open STDOUT, '>', "$weir.log";
		open STDERR, '>&', \*STDOUT;
		exec $ENV{WEIR}, '-c', "$weir.ini" or exit 127;
	}
	push @{$t->{_daemons}}, $pid;
	for (1 .. 250) {
		return "unix:$weir.sock" if IO::Socket::UNIX->new(Peer => "$weir.sock");
		select undef, undef, undef, 0.02;
	}
	open my $log, '<', "$weir.log";
	die "weir does not serve:\n", <$log>;
}

1;
