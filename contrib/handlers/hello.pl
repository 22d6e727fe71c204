#!/usr/bin/perl
# hello.pl - a CGI program in Perl, core modules only: says what it was asked, and
# does what the query wants. See echo.c for the list.
use strict;
use warnings;
use Digest::SHA;
use Time::HiRes qw(sleep);

my %option = map { /^(\w+)=(.*)/ ? ($1 => $2) : () } split /&/, $ENV{QUERY_STRING} // '';
binmode STDIN;
binmode STDOUT;
$| = 1;    # each print leaves at once

sub head {
	my ($status) = @_;
	my $head = "Status: $status\r\nContent-Type: text/plain\r\n";
	$head .= "Set-Cookie: cookie$_=$_; Path=/\r\n" for 1 .. $option{cookies} // 0;
	print $head, "\r\n";
}

sub numbered {
	my ($size) = @_;
	for (my $at = 0; $at < $size; $at += 65536) {
		my $n = $size - $at < 65536 ? $size - $at : 65536;
		print substr join('', map { sprintf "%015d\n", $at / 16 + $_ } 0 .. ($n + 15) / 16),
			0, $n;
	}
}

if ($option{early}) {
	head($option{early});
	print "too early\n";
	exit;
}

# Standard input ends where the body does, so reading it needs no length.
my $sha = Digest::SHA->new(256);
my $bytes = 0;
while (my $n = read STDIN, my $piece, 65536) {
	$sha->add($piece);
	$bytes += $n;
}
sleep $option{sleep} if $option{sleep};
head($option{status} // 200);

if (defined $option{die}) {
	numbered($option{die});
	kill KILL => $$;
} elsif (defined $option{lines}) {
	for my $i (1 .. $option{lines}) {
		sleep(($option{pause} // 1000) / 1000) if $i > 1;
		print "line $i\n";
	}
} elsif (defined $option{size}) {
	numbered($option{size});
} else {
	print "$_=$ENV{$_}\n" for sort keys %ENV;
	print "body_bytes=$bytes\nbody_sha256=", $sha->hexdigest, "\n";
}
