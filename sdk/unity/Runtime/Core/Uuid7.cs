using System;
using System.Security.Cryptography;
using System.Text;

namespace Playmeter
{
    /// <summary>UUIDs of version 7, which sort by their time of creation.</summary>
    internal sealed class Uuid7
    {
        private readonly RandomNumberGenerator random = RandomNumberGenerator.Create();
        private long last;

        /// <summary>Returns a new id: 48 bits of milliseconds, a counter of 12 bits, and 62 random bits.</summary>
        internal string Next(long nowMs)
        {
            last = Math.Max(last + 1, nowMs << 12);
            var bytes = new byte[8];
            random.GetBytes(bytes);
            bytes[0] = (byte)((bytes[0] & 0x3f) | 0x80);
            var text = new StringBuilder((last >> 12).ToString("x12")).Append('7').Append((last & 0xfff).ToString("x3"));
            text.Append(Hex.Of(bytes));
            foreach (var at in new[] { 20, 16, 12, 8 })
            {
                text.Insert(at, '-');
            }
            return text.ToString();
        }
    }

    internal static class Hex
    {
        internal static string Of(byte[] bytes)
        {
            var text = new StringBuilder(2 * bytes.Length);
            foreach (var value in bytes)
            {
                text.Append(value.ToString("x2"));
            }
            return text.ToString();
        }
    }
}
