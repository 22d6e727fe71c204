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

use nginx_weir;
use Test::Nginx;

my %between; # backend's address => socket of the weir before it

sub start_weir {
	my ($backend, $t, $keep) = @_;
	my $address = $backend =~ /^unix:/ ? $backend : "tcp:$backend";

	return $between{$backend} = nginx_weir::start($t,
		"workers = 1\nbackend = daemon\n[store]\ntype = memory\n"
		. "[backend daemon]\nfastcgi = $address\nkeep = $keep\nkeep_idle = 1s\n");
}

sub redirect {
	my ($t, $config) = @_;
	my $address = qr/127\.0\.0\.1:\d+|unix:[^\s;]+/;
	my $keep = $config =~ /fastcgi_keep_conn\s+on/ ? 8 : 0;
	my $behind = sub { $between{$_[0]} // start_weir($_[0], $t, $keep) };
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
