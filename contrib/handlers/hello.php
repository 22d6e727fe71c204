<?php
// hello.php - for php-fpm: says what it was asked, and does what the query wants.
// See echo.c for the list.

$option = [];
parse_str($_SERVER['QUERY_STRING'] ?? '', $option);
while (ob_get_level())
	ob_end_clean();	// each flush() below leaves at once

function head(int $status, int $cookies): void
{
	http_response_code($status);
	header('Content-Type: text/plain');
	for ($i = 1; $i <= $cookies; $i++)
		header("Set-Cookie: cookie$i=$i; Path=/", false);
}

function numbered(int $size): void
{
	for ($at = 0; $at < $size; $at += 65536) {
		$text = '';
		for ($line = $at / 16; $line < $at / 16 + 4096; $line++)
			$text .= sprintf("%015d\n", $line);
		echo substr($text, 0, min(65536, $size - $at));
	}
}

$cookies = (int)($option['cookies'] ?? 0);
if (isset($option['early'])) {
	head((int)$option['early'], $cookies);
	echo "too early\n";
	exit;
}

// In pieces, so that a large body takes no memory.
$sha = hash_init('sha256');
$bytes = hash_update_stream($sha, fopen('php://input', 'rb'));
sleep((int)($option['sleep'] ?? 0));
head((int)($option['status'] ?? 200), $cookies);

if (isset($option['die'])) {
	numbered((int)$option['die']);
	flush();
	posix_kill(getmypid(), 9);
} elseif (isset($option['lines'])) {
	for ($i = 1; $i <= (int)$option['lines']; $i++) {
		if ($i > 1)
			usleep((int)($option['pause'] ?? 1000) * 1000);
		echo "line $i\n";
		flush();
	}
} elseif (isset($option['size'])) {
	numbered((int)$option['size']);
} else {
	foreach ($_SERVER as $name => $value)
		if (is_string($value))
			echo "$name=$value\n";
	echo "body_bytes=$bytes\nbody_sha256=", hash_final($sha), "\n";
}
