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

use nginx_weir;
use Test::Nginx;

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
	my $socket = nginx_weir::start($t,
		join "\n", 'backend = programs', '[store]', 'type = memory', '[backend programs]',
		"cgi = $ENV{TEST_ROOT_DIR}", @options, '');
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
