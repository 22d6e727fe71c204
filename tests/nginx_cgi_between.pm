# nginx_cgi_between.pm - has weir run the programs of nginx-cgi's tests, which are made for
# a module of nginx.
#
# tests/nginx-cgi-tests.sh loads it into each test, before that loads its own Test::Nginx.
# In the configuration the module's directives become fastcgi_pass, parameters, and options
# of the weir that is started for it. What has no like is left out; README.md says which
# results that changes.
package nginx_cgi_between;

use strict;
use warnings;
no warnings qw(redefine prototype);

use IO::Socket::UNIX;
use Test::Nginx;

my $count = 0;

sub start_weir {
	my ($t, @options) = @_;
	my $dir = $t->testdir();
	my $n = $count++;
	my $socket = "$dir/weir$n.sock";

	open my $ini, '>', "$dir/weir$n.ini" or die "weir$n.ini: $!";
	print $ini "[server]\nlisten = unix:$socket\ncontrol =\nbackend = programs\n",
		"[store]\ntype = memory\n[backend programs]\n",
		map { "$_\n" } "cgi = $ENV{TEST_ROOT_DIR}", @options;
	close $ini;
	my $pid = fork() // die "fork: $!";
	if ($pid == 0) {
		open STDOUT, '>', "$dir/weir$n.log";
		open STDERR, '>&', \*STDOUT;
		exec $ENV{WEIR}, '-c', "$dir/weir$n.ini" or exit 127;
	}
	push @{$t->{_daemons}}, $pid; # ended with the test's own
	for (1 .. 250) {
		return "unix:$socket" if IO::Socket::UNIX->new(Peer => $socket);
		select undef, undef, undef, 0.02;
	}
	die "weir does not serve:\n" . $t->read_file("weir$n.log");
}

sub translate {
	my ($t, $config) = @_;
	my (@options, @params);

	# Of its two times the first is for SIGTERM, the second for SIGKILL.
	if ($config =~ s/^\s*cgi_timeout\s+(\d+)(?:\s+(\d+))?;\n//m) {
		my ($term, $kill) = ($1, $2 // 30);

		push @options, 'timeout = ' . ($term || $kill) . 's',
			'kill_grace = ' . ($term ? $kill : 0) . 's';
	}
	push @options, "path = $1" if $config =~ s/^\s*cgi_path\s+"(.*)";\n//m;
	# The innermost counts, as with the module.
	push @params, $1 while $config =~ s/^\s*cgi_set_var\s+(.*);\n//m;
	my $socket = start_weir($t, @options);
	my $pass = sub {
		my (@script) = map { "fastcgi_param $_;" } @_;

		return join "\n", 'include /etc/nginx/fastcgi.conf;',
			'fastcgi_param SERVER_NAME $host;', # as the module has it
			'fastcgi_param REMOTE_USER "";',
			'fastcgi_buffering off;',
			@script,
			(map { "fastcgi_param $_;" } @params),
			"fastcgi_pass $socket;\n";
	};
	my @all_is_path = ('SCRIPT_NAME ""', 'PATH_INFO $document_uri');
	my @alias = $config =~ /^\s*alias/m ? 'SCRIPT_FILENAME $request_filename' : ();
	$config =~ s/^\s*cgi[ _]pass\s+(\S+?)(?:\s.*)?;\n/
		$pass->("SCRIPT_FILENAME $1", @all_is_path)/mex;
	$config =~ s/^\s*cgi\s+on;\n/$pass->(@alias)/me;
	$config =~ s/^\s*cgi_\w+\s.*\n//mg;
	return $config;
}

*Test::Nginx::test_globals_modules = sub { '' };

my $has_module = \&Test::Nginx::has_module;
*Test::Nginx::has_module = sub ($) { $_[1] eq 'cgi' || $has_module->(@_) };

my $expand = \&Test::Nginx::write_file_expand;
*Test::Nginx::write_file_expand = sub {
	my ($t, $name, $content) = @_;

	$content = translate($t, $content) if $name eq 'nginx.conf';
	return $expand->($t, $name, $content);
};

1;
