/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* For call_types.sh: calls a function through a pointer of another type, which checks of calls refuse. */
static __attribute__((noinline)) int of_pointer(char *text)
{
	return text == 0;
}

int main(int count, char **arguments)
{
	int (*volatile right)(char *) = of_pointer;
	int (*volatile wrong)(long) = (int (*)(long))(void *)right;

	return count < 0 ? right(*arguments) : wrong(count);
}
