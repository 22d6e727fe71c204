# nginx_between.pm - puts weir between nginx and the FastCGI daemons of nginx's own tests.
#
# tests/nginx-tests.sh loads it into each test, in both of its runs, before the test loads
# Test::Nginx. With WEIR in the environment every address that a configuration passes
# FastCGI requests to is replaced by the socket of a weir that has this address as its
# backend, and so is an address that a request names ("?b=127.0.0.1:8081"). Where nginx
# keeps connections to its FastCGI servers, weir keeps them to its backends; and as weir
# uses them for some methods only, it is told the method, as every real configuration does.
#
# Without WEIR it only leaves out dynamic modules that are not installed, which the tests
# would otherwise have nginx load.
package nginx_between;

use strict;
use warnings;
no warnings qw(redefine prototype);

use IO::Socket::UNIX;
use Test::Nginx;

my %between; # backend's address => socket of the weir before it

sub start_weir {
	my ($t, $backend, $keep) = @_;
	my $n = keys %between;
	my $dir = $t->testdir();
	my $socket = "$dir/weir$n.sock";
	my $address = $backend =~ /^unix:/ ? $backend : "tcp:$backend";

	open my $ini, '>', "$dir/weir$n.ini" or die "weir$n.ini: $!";
	print $ini "[server]\nlisten = unix:$socket\ncontrol =\nworkers = 1\n",
		"backend = daemon\n[store]\ntype = memory\n",
		"[backend daemon]\nfastcgi = $address\nkeep = $keep\nkeep_idle = 1s\n";
	close $ini;
	my $pid = fork() // die "fork: $!";
	if ($pid == 0) {
		open STDOUT, '>', "$dir/weir$n.log";
		open STDERR, '>&', \*STDOUT;
		exec $ENV{WEIR}, '-c', "$dir/weir$n.ini" or exit 127;
	}
	push @{$t->{_daemons}}, $pid; # ended with the test's own
	for (1 .. 250) {
		return $between{$backend} = "unix:$socket"
			if IO::Socket::UNIX->new(Peer => $socket);
		select undef, undef, undef, 0.02;
	}
	die "weir does not serve:\n" . $t->read_file("weir$n.log");
}

sub redirect {
	my ($t, $config) = @_;
	my $address = qr/127\.0\.0\.1:\d+|unix:[^\s;]+/;
	my $keep = $config =~ /fastcgi_keep_conn\s+on/ ? 8 : 0;
	my $behind = sub { $between{$_[0]} // start_weir($t, $_[0], $keep) };
	my %passed_to = map { $_ => 1 } $config =~ /fastcgi_pass\s+([\w\$]+);/g;
	my $by_variable = grep { /^\$/ } keys %passed_to;

	$config =~ s/^http [{]$/$&\nfastcgi_param REQUEST_METHOD \$request_method;/m
		if $keep && $config !~ /fastcgi_param/;
	$config =~ s/(fastcgi_pass\s+)($address);/$1 . $behind->($2) . ';'/ge;
	my $upstream = sub {
		my ($head, $name, $servers) = @_;

		$servers =~ s/(server\s+)($address)/$1 . $behind->($2)/ge
			if $by_variable || $passed_to{$name};
		return "$head$servers";
	};
	$config =~ s/(upstream\s+(\w+)\s*[{])([^}]*)/$upstream->($1, $2, $3)/ge;
	return $config;
}

my $modules = \&Test::Nginx::test_globals_modules;
*Test::Nginx::test_globals_modules = sub {
	return join '', grep { !/load_module (\S+);/ || -e $1 } split /^/, $modules->(@_);
};

if ($ENV{WEIR}) {
	my $expand = \&Test::Nginx::write_file_expand;
	*Test::Nginx::write_file_expand = sub {
		my ($t, $name, $content) = @_;

		$expand->($t, $name, $content);
		$t->write_file($name, redirect($t, $t->read_file($name)))
			if $name =~ /\.conf$/;
		return $t;
	};
	my $http = \&Test::Nginx::http;
	*Test::Nginx::http = sub ($;%) {
		my ($request, @rest) = @_;

		$request =~ s/\?b=\Q$_\E\b/?b=$between{$_}/ for keys %between;
		return $http->($request, @rest);
	};
}

1;
